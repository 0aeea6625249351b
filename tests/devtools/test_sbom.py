"""The bill of materials that `make dist` puts beside the wheels."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator, FormatChecker
from referencing import Registry, Resource

from devtools import sbom
from devtools.pins import REQUIREMENTS, read_pins, read_vendored

# As the project CycloneDX publishes them, under Apache-2.0.
SCHEMAS = Path(__file__).parent / "cyclonedx"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1760000000")
    (tmp_path / "penstock_mq-1.2.3-py3-none-any.whl").write_bytes(b"a wheel")
    file = sbom.write(tmp_path)
    assert file.name == "penstock_mq-1.2.3.cdx.json"
    return json.loads(file.read_text())


def test_it_is_what_its_schema_says(made: dict) -> None:
    schemas = {file.name: json.loads(file.read_text()) for file in SCHEMAS.iterdir()}
    base = "http://cyclonedx.org/schema/"
    registry = Registry().with_resources(
        [
            (base + name.replace(".schema", f"{infix}.schema"), Resource.from_contents(schema))
            for name, schema in schemas.items()
            for infix in ("", ".SNAPSHOT")
        ]
    )
    validator = Draft7Validator(schemas["bom-1.5.schema.json"], registry=registry, format_checker=FormatChecker())
    assert [error.message for error in validator.iter_errors(made)] == []
    assert list(validator.iter_errors({**made, "bomFormat": "other"})), "the schema is looked at"


def test_it_names_every_pin_with_its_hashes_and_every_vendored_script(made: dict) -> None:
    found = {(one["name"], one["version"]): one for one in made["components"]}
    for pin in read_pins(REQUIREMENTS / "server.txt"):
        assert [one["content"] for one in found[pin.name, pin.version]["hashes"]] == list(pin.hashes)
    for library in read_vendored():
        one = found[library.name, library.version]
        assert [hash_["content"] for hash_ in one["hashes"]] == list(library.files.values())
        assert one["licenses"] == [{"license": {"id": library.licence}}]


def test_it_says_what_needs_what_under_which_licence_and_which_wheels_it_is_about(made: dict) -> None:
    refs = {one["bom-ref"]: one for one in [made["metadata"]["component"], *made["components"]]}
    needs = {one["ref"]: one["dependsOn"] for one in made["dependencies"]}
    assert needs.keys() == refs.keys()
    [jinja] = [ref for ref in refs if ref.startswith("pkg:pypi/jinja2@")]
    assert [ref.partition("@")[0] for ref in needs[jinja]] == ["pkg:pypi/markupsafe"]
    # All but what is for other systems alone.
    assert {one["name"] for one in made["components"] if "licenses" not in one} <= {"colorama", "tzdata"}
    [wheel] = made["metadata"]["component"]["properties"]
    assert wheel["name"] == "penstock:sha256:penstock_mq-1.2.3-py3-none-any.whl"
    assert wheel["value"] == hashlib.sha256(b"a wheel").hexdigest()


def test_the_same_tree_makes_the_same_text(made: dict, tmp_path: Path) -> None:
    assert json.loads(sbom.write(tmp_path).read_text()) == made
