"""Schemas by themselves: right by the draft's own schema, whatever shapes there are."""

import json
from typing import Any, NotRequired, TypedDict

import pytest
from jsonschema import Draft202012Validator

from cdma.cli import main
from cdma.schemas import SCHEMAS, document
from cdma.schemas.json_schema import json_schema
from cdma.schemas.registry import Schema
from tests.lib.paths import ROOT


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_right_by_the_draft_s_own(name, capsys):
    Draft202012Validator.check_schema(json_schema(SCHEMAS[name], closed=True))
    assert main(["schema", name]) == 0
    printed = json.loads(capsys.readouterr().out)
    Draft202012Validator.check_schema(printed)
    assert printed == json_schema(SCHEMAS[name])
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert printed["properties"]["schema"] == {"const": name}
    assert (ROOT / "docs" / SCHEMAS[name].page).is_file()


class Leaf(TypedDict):
    """A leaf."""

    size: int | None


class Tree(TypedDict):
    """A tree."""

    name: str
    leaf: Leaf
    branches: "list[Tree]"
    extra: NotRequired[dict[str, Any]]


def test_a_shape_may_be_in_itself_and_keys_may_be_missing():
    made = json_schema(
        Schema(name="swap", shape=Tree, written_by="", page="", has_command=False), closed=True
    )
    validator = Draft202012Validator(made)
    head = {"schema": "swap", "version": 1}
    leaf: dict = {"name": "a", "leaf": {"size": None}, "branches": []}
    assert validator.is_valid({**head, **leaf})
    assert validator.is_valid({**head, **leaf, "branches": [{**leaf, "extra": {"x": [1]}}]})
    assert not validator.is_valid({**head, **leaf, "branches": [{**leaf, "name": 1}]})
    assert not validator.is_valid({**head, **leaf, "leaf": {"size": 1.5}})
    assert not validator.is_valid({**head, **leaf, "leaf": {}})


def test_a_shape_that_no_json_has_is_refused():
    class Wrong(TypedDict):
        """A set."""

        names: set[str]

    with pytest.raises(TypeError, match="no JSON is declared by set"):
        json_schema(Schema(name="swap", shape=Wrong, written_by="", page=""))


def test_outside_of_any_command_a_document_has_no_command():
    assert document("config", {"configuration": {}})["made_by"]["command"] is None


def test_an_unknown_schema_is_told_with_the_nearest(capsys):
    assert main(["schema", "swop"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cdma: error: there is no schema 'swop'; did you mean 'swap'? schemas")
