"""The files of `deploy/` that need a container engine or a cluster to run: none is here, so they are read closely, and
what the container runs is run as it would be there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from yaml.constructor import ConstructorError

from penstock.server.config import SETTINGS, Config
from tests.docs.pages import ROOT
from tests.lacking import lacking, path_of
from tests.talk import Talk
from tests.waiting import wait_until

DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
USER = 10001


class Strict(yaml.SafeLoader):
    """A key that is there twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise ConstructorError(None, None, f"a key is repeated: {keys}", node.start_mark)
        return super().construct_mapping(node, deep)


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.load_all(path.read_text(), Strict) if one is not None]


# The container


def instructions() -> list[tuple[str, str]]:
    """Each with its words, lines that go on joined and comments left out."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", "", text)
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]  # type: ignore[misc]


def last(name: str) -> str:
    return [words for found, words in instructions() if found == name][-1]


def test_every_instruction_is_known() -> None:
    known = "ARG FROM RUN WORKDIR COPY LABEL ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD"
    assert {name for name, _ in instructions()} <= set(known.split())
    assert instructions()[0][0] == "ARG"


def test_two_stages_and_the_compiler_stays_in_the_first() -> None:
    stages = [words for name, words in instructions() if name == "FROM"]
    assert stages == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]
    assert "gcc" not in CONTAINERFILE.read_text().rpartition("FROM")[2]
    [copied] = [words for name, words in instructions() if name == "COPY" and words.startswith("--from")]
    assert copied == "--from=build /opt/penstock /opt/penstock"


def copied() -> list[str]:
    found = (words for name, words in instructions() if name == "COPY" and not words.startswith("--"))
    return [word for words in found for word in words.split()[:-1]]


@pytest.mark.parametrize("ignore", [".dockerignore", ".containerignore"])
def test_what_is_copied_is_there_and_nothing_else_is_sent(ignore: str) -> None:
    for word in copied():
        assert (ROOT / word).exists(), word
    lines = [line for line in (ROOT / ignore).read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())


def test_it_builds_as_make_does() -> None:
    """Whatever `make dist` needs is copied."""
    [build] = [words for name, words in instructions() if name == "RUN" and "make" in words and "pip" in words]
    assert build.startswith("make dist ")
    made = (ROOT / "Makefile").read_text()
    assert re.search(r"^dist: .*build/compiled/\.ready", made, re.MULTILINE)
    assert "build/compiled/wheel/*.whl" in build
    for needed in ("Makefile", "setup.py", "pyproject.toml", "devtools/build_package.sh", "requirements/build.txt"):
        assert needed in copied()
    assert "assert is_compiled()" in build


def test_what_is_copied_is_all_that_make_dist_asks_for(tmp_path: Path) -> None:
    make = path_of("make")
    for word in copied():
        source, copy = ROOT / word, tmp_path / word
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = [make, "--just-print", "dist"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "devtools/build_package.sh compiled" in done.stdout


def test_it_runs_as_nobody_and_stops_in_order() -> None:
    assert last("USER") == f"{USER}:{USER}"
    assert last("STOPSIGNAL") == "SIGTERM"
    assert last("VOLUME") == "/var/lib/penstock"
    assert json.loads(last("ENTRYPOINT")) == ["penstock"]
    assert json.loads(last("CMD")) == ["serve"]
    probe = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    assert "/health/ready" in probe[-1]
    compile(probe[-1], "HEALTHCHECK", "exec")


def environ() -> dict[str, str]:
    """As the image sets it."""
    return dict(word.split("=", 1) for word in shlex.split(last("ENV")))


def test_every_variable_is_a_setting_and_none_is_a_secret() -> None:
    names = {name for name in environ() if name.startswith("PENSTOCK_")}
    assert names <= {setting.variable for setting in SETTINGS.values()}
    assert not re.search("PASSWORD|SECRET|TOKEN|psk_", CONTAINERFILE.read_text())


# Mounts: all is read-only but the volume, as under `--read-only`.
_ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$VOLUME"
chown {user}:{user} "$VOLUME"
mount -o remount,bind,ro /
mount -o remount,bind,ro /tmp 2>/dev/null || true
cd "$VOLUME"
exec setpriv --reuid={user} --regid={user} --clear-groups --no-new-privs --bounding-set=-all -- "$@"
"""


def test_what_it_runs_needs_one_folder_to_write_and_no_privilege(tmp_path: Path) -> None:
    """The command line and the variables of the image, as its user, on a root that cannot be written to."""
    unshare, setpriv = path_of("unshare"), path_of("setpriv")
    if os.geteuid():
        lacking("only root can mount a root that is read-only")
    assert setpriv
    volume = tmp_path / "volume"
    volume.mkdir()
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    variables = {name: value for name, value in environ().items() if name.startswith("P") and name != "PATH"}
    variables |= {
        "VOLUME": str(volume),
        "PENSTOCK_STORE": f"sqlite:///{volume}/queue.db",
        "PENSTOCK_PORT": "0",
        "PENSTOCK_EXPOSE_WITHOUT_KEYS": "yes",
    }
    penstock = [sys.executable, "-m", *json.loads(last("ENTRYPOINT")), *json.loads(last("CMD"))]
    command = [unshare, "--mount", "sh", "-c", _ENTER.format(user=USER), "sh", *penstock]
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stderr=file)
    try:
        wait_until(lambda: "serves" in log.read_text() or process.poll() is not None)
        text = log.read_text()
        if "unshare" in text or "mount" in text or "Permission denied" in text:
            lacking("a root cannot be mounted read-only here", text.strip().splitlines()[-1])
        lines = [json.loads(line) for line in text.splitlines()]
        [port] = re.findall(r"serves http://0\.0\.0\.0:(\d+)", " ".join(line["message"] for line in lines))
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.search(rf"^Uid:\t{USER}\t{USER}\t", status, re.MULTILINE)
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        with Talk(f"http://127.0.0.1:{port}") as talk:
            assert talk("GET", "/health/ready").status == 200
            assert talk("PUT", "/v1/queues/q", {}).status == 201
            assert talk("POST", "/v1/queues/q/messages", {"messages": [{"body": "x"}]}).status == 201
        probe = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
        asked = {**os.environ, "PENSTOCK_PORT": port}
        assert subprocess.run([sys.executable, *probe[1:]], env=asked, check=False).returncode == 0
    finally:
        process.terminate()
        assert process.wait() == 0
    gone = subprocess.run([sys.executable, *probe[1:]], env=asked, capture_output=True, check=False)
    assert gone.returncode != 0


# Compose


def test_compose_is_valid() -> None:
    file = DEPLOY / "compose.yaml"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    [compose] = documents(file)
    assert compose["services"].keys() >= {"penstock", "postgres", "prometheus"}
    penstock = compose["services"]["penstock"]
    assert penstock["read_only"] is True
    assert penstock["cap_drop"] == ["ALL"]
    assert (file.parent / penstock["build"]["context"] / penstock["build"]["dockerfile"]).resolve() == CONTAINERFILE
    assert int(penstock["stop_grace_period"].removesuffix("s")) > Config().stop_grace_s + 5
    for service in compose["services"].values():
        for secret in service.get("secrets", ()):
            assert secret in compose["secrets"]
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")


def test_every_file_that_compose_mounts_is_there_or_made_by_its_reader() -> None:
    [compose] = documents(DEPLOY / "compose.yaml")
    named = set(compose["volumes"])
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in named or (DEPLOY / source).exists(), source
    assert "deploy/secrets/" in (ROOT / ".gitignore").read_text()


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_containers_can_read_the_secrets_of_compose_and_other_users_cannot(tmp_path: Path, umask: int) -> None:
    """A secret that is a file is mounted with its mode, and Penstock runs as a user that owns nothing."""
    head = (DEPLOY / "compose.yaml").read_text().partition("\nname:")[0]
    commands = [line.removeprefix("#     ") for line in head.splitlines() if line.startswith("#     ")]
    made = [line for line in commands if "penstock " not in line and "docker" not in line]
    (tmp_path / "deploy").mkdir()
    subprocess.run(["/bin/sh", "-ec", "\n".join(made)], cwd=tmp_path, check=True, umask=umask)
    [compose] = documents(DEPLOY / "compose.yaml")
    for secret in compose["secrets"].values():
        file = tmp_path / "deploy" / secret["file"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_the_settings_of_prometheus_are_good(tmp_path: Path) -> None:
    promtool = path_of("promtool")
    folder = tmp_path / "prometheus"
    shutil.copytree(DEPLOY / "prometheus", folder)
    settings = folder / "prometheus.yaml"
    [read] = documents(settings)
    [target] = read["scrape_configs"][0]["static_configs"][0]["targets"]
    [compose] = documents(DEPLOY / "compose.yaml")
    assert target.partition(":")[0] in compose["services"]
    settings.write_text(settings.read_text().replace("/run/secrets/metrics_key", str(settings)))
    done = subprocess.run([promtool, "check", "config", settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Kubernetes


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_manifest_is_valid(path: Path) -> None:
    import kubernetes_validate

    for document in documents(path):
        if document["apiVersion"].startswith("keda.sh/"):
            continue  # what KEDA adds is not known to Kubernetes: see below
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def containers() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    found = []
    for path in MANIFESTS:
        for document in documents(path):
            if document["kind"] in ("Deployment", "StatefulSet"):
                pod = document["spec"]["template"]["spec"]
                found += [(f"{path.name} {document['kind']}", pod, one) for one in pod["containers"]]
    return found


@pytest.mark.parametrize(("pod", "container"), [one[1:] for one in containers()], ids=[one[0] for one in containers()])
def test_a_pod_is_probed_and_has_no_privilege(pod: dict[str, Any], container: dict[str, Any]) -> None:
    paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    live, ready = "/health/live", "/health/ready"
    assert paths == {"startupProbe": live, "livenessProbe": live, "readinessProbe": ready}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    pause = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["", "0"])
    assert pod["terminationGracePeriodSeconds"] > Config().stop_grace_s + 5 + int(pause[1])
    # A probe is answered within a second, also where the store hangs.
    assert container["readinessProbe"]["timeoutSeconds"] > 1


def test_selectors_select() -> None:
    for path in MANIFESTS:
        by_kind = {document["kind"]: document for document in documents(path)}
        for kind in ("Deployment", "StatefulSet"):
            if kind in by_kind:
                labels = by_kind[kind]["spec"]["template"]["metadata"]["labels"].items()
                assert by_kind[kind]["spec"]["selector"]["matchLabels"].items() <= labels
                assert by_kind["Service"]["spec"]["selector"].items() <= labels
                if "PodDisruptionBudget" in by_kind:
                    budget = by_kind["PodDisruptionBudget"]["spec"]
                    assert budget["selector"]["matchLabels"].items() <= labels
                    assert budget["minAvailable"] < by_kind[kind]["spec"]["replicas"]


def test_what_keda_asks_is_what_a_server_answers(tmp_path: Path) -> None:
    from tests.servers import ThreadServer

    by_kind = {document["kind"]: document for document in documents(DEPLOY / "kubernetes" / "keda.yaml")}
    auth, scaled = by_kind["TriggerAuthentication"], by_kind["ScaledObject"]
    server = ThreadServer(f"sqlite:///{tmp_path}/p.db")
    try:
        with server.talk() as talk:
            talk("PUT", "/v1/queues/orders", {})
            talk("POST", "/v1/queues/orders/messages", {"messages": [{"body": "1"}, {"body": "2"}]})
            for trigger in scaled["spec"]["triggers"]:
                asked = trigger["metadata"]
                assert trigger["type"] == "metrics-api"
                assert trigger["authenticationRef"]["name"] == auth["metadata"]["name"]
                assert all(isinstance(value, str) for value in asked.values())
                value: Any = talk("GET", asked["url"].removeprefix("http://penstock:8080")).json
                for part in asked["valueLocation"].split("."):
                    value = value[part]
                assert isinstance(value, int)
    finally:
        server.stop()
