"""A release on Zenodo says the same of itself as the citation and the package do."""

import importlib.metadata
import json
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
TEXT = {"type": "string", "minLength": 1}
#: The fields that Zenodo's deposit interface documents and we use, with the values it allows.
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["upload_type", "title", "description", "creators", "access_right", "license"],
    "properties": {
        "upload_type": {"const": "software"},
        "title": TEXT,
        "description": TEXT,
        "creators": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": False,
                "properties": {"name": TEXT, "affiliation": TEXT, "orcid": TEXT},
            },
        },
        "version": TEXT,
        "publication_date": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        "access_right": {"enum": ["open", "embargoed", "restricted", "closed"]},
        "license": TEXT,
        "language": {"type": "string", "pattern": "^[a-z]{3}$"},
        "keywords": {"type": "array", "items": TEXT, "uniqueItems": True},
        "related_identifiers": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["identifier", "relation"],
                "additionalProperties": False,
                "properties": {
                    "identifier": TEXT,
                    "relation": {
                        "enum": ["cites", "isSupplementTo", "isDerivedFrom", "references", "documents"]
                    },
                    "resource_type": {"enum": ["publication-article", "publication-preprint", "software"]},
                    "scheme": {"enum": ["doi", "arxiv", "url"]},
                },
            },
        },
        "references": {"type": "array", "items": TEXT},
    },
}


def test_the_record_is_valid():
    jsonschema.validate(RECORD, SCHEMA)


def test_the_record_agrees_with_the_citation():
    for ours, theirs in (
        ("title", "title"),
        ("license", "license"),
        ("keywords", "keywords"),
        ("upload_type", "type"),
    ):
        assert RECORD[ours] == CITATION[theirs], ours
    assert [creator["name"] for creator in RECORD["creators"]] == [
        author["name"] for author in CITATION["authors"]
    ]
    assert RECORD["description"].startswith(CITATION["abstract"].strip())


def test_the_record_agrees_with_the_package():
    metadata = importlib.metadata.metadata("lvqrej")
    assert RECORD["license"] == metadata["License-Expression"]


def test_the_paper_is_named_with_its_identifier_and_authors():
    (paper,) = CITATION["references"]
    (identifier,) = paper["identifiers"]
    assert [related["identifier"] for related in RECORD["related_identifiers"]] == [identifier["value"]]
    (reference,) = RECORD["references"]
    assert paper["title"] in reference
    assert str(paper["year"]) in reference
    assert all(author["family-names"] in reference for author in paper["authors"])
