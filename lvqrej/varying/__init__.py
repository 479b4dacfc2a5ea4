"""What the variants of an explanation are made of."""
