"""What only the book needs: figures, data, the paper's own algorithms, its experiments and their tables.

It comes with the repository and is no part of the package `lvqrej`, of which it uses public names only.

- `figures`, `drawing`, `running_example`, `explorer`: how the chapters look and what they look at;
- `datasets`, `datafile`, `synthetic`, `preprocessing`: data by name, and how a fold is prepared;
- `baselines`, `baselines_convex`, `baselines_direct`, `programs`: the paper's algorithms as printed;
- `deviations`, `published`: where the published code departs from the paper;
- `protocol`, `methods`, `experiments`, `evaluation`: the experiments;
- `runner`, `results`, `paper_tables`, `rules`, `reproduce`: from a run to the tables of the paper.
"""
