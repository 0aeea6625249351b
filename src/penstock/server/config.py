"""The server's settings, and where each value came from.

Every setting is one field of `Config`; the command line, the environment and the file read that one list.
Strongest first: the command line, `PENSTOCK_<NAME>`, a TOML file, the default. Nothing is printed here.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from penstock.errors import InvalidSetting

Value: TypeAlias = str | int | float | bool

ENVIRONMENT = "PENSTOCK_"
FILE = "penstock.toml"
# Variables that other parts of the program read.
_READ_ELSEWHERE = frozenset(
    {"PENSTOCK_CONFIG", "PENSTOCK_URL", "PENSTOCK_API_KEY", "PENSTOCK_CACERT", "PENSTOCK_MQ_ROOT"}
)
_FOR_TESTS = "PENSTOCK_TEST_"
_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
# A timeout of zero would turn every client away.
_SHORTEST_S = 0.01
_LONGEST_S = 86_400.0
# A secret may be in a file of its own, to which a setting then points.
_IN_FILE = "file:"
_SHORTEST_PEPPER = 16
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/]*(?=@)|([?&]password=)[^&]*")


def _setting(default: Value, help: str, **limits: object) -> Any:  # noqa: A002
    # What represents a secret ends up in logs.
    return dataclasses.field(default=default, metadata={"help": help, **limits}, repr="secret" not in limits)


def _seconds(default: float, help: str, **limits: object) -> Any:  # noqa: A002
    return _setting(default, help, least=_SHORTEST_S, most=_LONGEST_S, **limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    host: str = _setting("127.0.0.1", "Address to listen on.", empty=False)
    port: int = _setting(8080, "Port to listen on; 0 takes any free one.", least=0, most=65535)
    store: str = _setting("sqlite:///data/penstock.db", "Where the messages are kept.", empty=False)
    store_connections: int = _setting(
        2, "Connections to a store in a database server that work at once; one more listens.", least=1, most=64
    )
    store_timeout_s: float = _seconds(
        5.0,
        "Seconds that a request waits for a store that does not answer before it is answered 503.",
    )
    workers: int = _setting(
        1,
        "Processes that speak HTTP; where they are several, one more writes to the store, unless a database keeps it.",
        least=1,
        most=256,
    )
    faces: str = _setting("", "APIs to serve; by default all that the store can carry.", many=True)
    expose_without_keys: bool = _setting(False, "Listen beyond this machine although no API key is asked for.")
    allowed_hosts: str = _setting(
        "",
        "Names by which the server may be addressed without API keys, beside its addresses and localhost.",
        many=True,
    )
    console: str = _setting(
        "on", "Whether people may look at queues with a browser, under /console.", choices=("on", "off")
    )
    console_idle_s: float = _seconds(1800.0, "Seconds that somebody may do nothing before the console signs them out.")
    console_session_s: float = _seconds(43200.0, "Seconds after which the console asks for the key again.")
    sigv4_pepper: str = _setting(
        "",
        "Secret from outside the store that goes into the AWS secrets of API keys, or file: and the path of its file; "
        "the same at all servers of a store.",
        secret=True,
    )
    mqs_oversize: str = _setting(
        "cut", "What the mqs API does with a message that is too long.", choices=("cut", "refuse")
    )
    mqcore_redelivery_s: float = _seconds(10.0, "Seconds until a message fetched through MQ-Core comes back.")
    mqcore_peers: int = _setting(
        0, "Other servers that fetch from the same mqcore:// store at the same time.", least=0, most=1000
    )
    mqcore_daemons: bool = _setting(
        True, "Redeliver and destroy messages of an mqcore:// store here; not needed beside mq-mover and mq-reaper."
    )
    sqs_account: str = _setting(
        "000000000000", "Account in the URLs and ARNs of queues in the SQS API: 12 digits.", empty=False
    )
    sqs_region: str = _setting(
        "us-east-1", "Region in the ARNs of queues in the SQS API, for requests that name none.", empty=False
    )
    sqs_base_url: str = _setting(
        "", "What the URLs of queues in the SQS API begin with; by default the address that a client has used."
    )
    metrics_queues: int = _setting(
        100, "Queues that /metrics tells of one by one: the largest. The others are told together.", least=1, most=10000
    )
    ledger_days: int = _setting(30, "Days that finished messages stay in the ledger.", least=1, most=36500)
    ledger_mib: int = _setting(
        0, "MiB that the ledger may hold: the oldest rows go first; 0 for no limit.", least=0, most=1_048_576
    )
    action_days: int = _setting(90, "Days that actions stay in their log.", least=1, most=36500)
    tls_cert: str = _setting("", "File with the TLS certificate chain; needs tls_key.", live=True)
    tls_key: str = _setting("", "File with the TLS private key; needs tls_cert.", live=True)
    stop_grace_s: float = _setting(
        10.0, "Seconds that requests in progress get to finish at a stop.", least=0.0, most=_LONGEST_S, live=True
    )
    header_timeout_s: float = _seconds(10.0, "Seconds a client may take to send the headers of a request.", live=True)
    body_timeout_s: float = _seconds(60.0, "Seconds a client may take to send the body of a request.", live=True)
    idle_timeout_s: float = _seconds(75.0, "Seconds a connection may stay open without a request.", live=True)
    write_timeout_s: float = _seconds(30.0, "Seconds a client may take to accept more of an answer.", live=True)
    max_connections: int = _setting(10000, "Connections open at once.", least=1, most=1_000_000, live=True)
    max_bodies_mib: int = _setting(
        256, "MiB that the bodies of all requests in progress may hold together.", least=32, most=1_048_576, live=True
    )
    log_level: str = _setting(
        "info", "The least important events to log.", choices=("debug", "info", "warning", "error"), live=True
    )
    log_format: str = _setting("text", "How a line of the log is written.", choices=("text", "json"), live=True)
    access_log: bool = _setting(False, "Write a line of the log for every request.", live=True)


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of `Config`, as the command line and the documentation need to know it."""

    name: str
    kind: type
    default: Value
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    empty: bool = True
    # A list, joined by commas; on the command line its flag, or the singular of it, may also be repeated.
    many: bool = False
    # Whether a running server can take another value: see `adopted`.
    live: bool = False
    # Whether no one is shown its value, which may be in a file that the setting names.
    secret: bool = False

    @property
    def variable(self) -> str:
        return ENVIRONMENT + self.name.upper()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.flag.removesuffix("s"), self.flag) if self.many else (self.flag,)

    @property
    def right(self) -> str:
        """What a good value is, to end a sentence with."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "text" if self.empty else "text that is not empty"
        noun = "a whole number" if self.kind is int else "a number"
        return f"{noun} from {self.least:.10g} to {self.most:.10g}"


SETTINGS: Mapping[str, Setting] = {
    field.name: Setting(field.name, type(field.default), cast(Value, field.default), **field.metadata)
    for field in dataclasses.fields(Config)
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """`sources` says in words where each setting comes from. `warnings` are for the person who started the program."""

    config: Config
    sources: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    *,
    path: str | None = None,
    directory: Path = Path(),
) -> Loaded:
    """Gather every setting from its strongest source, or raise `InvalidSetting`.

    A flag that is None was not given. `path` is the file named on the command line; `directory` is where
    `penstock.toml` is looked for.
    """
    values: dict[str, Value] = {name: setting.default for name, setting in SETTINGS.items()}
    sources = dict.fromkeys(SETTINGS, "default")

    file = path or environ.get("PENSTOCK_CONFIG") or (FILE if (directory / FILE).is_file() else None)
    if file is not None:
        for name, given in _read_file(directory / file, file).items():
            sources[name] = f"file {file}"
            values[name] = _typed(_known(name, sources[name]), given, sources[name])

    for name, setting in SETTINGS.items():
        if setting.variable in environ:
            sources[name] = f"environment {setting.variable}"
            values[name] = _parsed(setting, environ[setting.variable], sources[name])

    for name, given in flags.items():
        if given is not None:
            setting = _known(name, "command line")
            sources[name] = "command line"
            read = _parsed if isinstance(given, str) else _typed
            values[name] = read(setting, given, sources[name])

    for name, setting in SETTINGS.items():
        if setting.secret:
            values[name] = _from_its_file(name, str(values[name]), sources[name], directory)

    config = Config(**values)  # type: ignore[arg-type]
    check(config, sources)
    return Loaded(config, sources, tuple(_warnings(environ)))


def check(config: Config, sources: Mapping[str, str] | None = None) -> None:
    """The rules that need more than one setting."""

    def of(name: str) -> str:
        return f"{name} ({sources[name]})" if sources else name

    if bool(config.tls_cert) != bool(config.tls_key):
        have, lack = ("tls_cert", "tls_key") if config.tls_cert else ("tls_key", "tls_cert")
        raise InvalidSetting(f"{of(have)} is set without {lack}: set both, or neither to serve without TLS")
    pepper = config.sigv4_pepper
    if pepper and (len(pepper) < _SHORTEST_PEPPER or not pepper.isprintable()):
        raise InvalidSetting(f"{of('sigv4_pepper')} must be {_SHORTEST_PEPPER} printable characters or more")
    if config.allowed_hosts:
        from penstock.hosts import HostNames

        HostNames(config.allowed_hosts)
    if not (config.sqs_account.isascii() and config.sqs_account.isdecimal() and len(config.sqs_account) == 12):
        raise InvalidSetting(f"{of('sqs_account')} cannot be {config.sqs_account!r}: an account has 12 digits")
    if not re.fullmatch(r"[a-z0-9-]{1,32}", config.sqs_region):
        raise InvalidSetting(
            f"{of('sqs_region')} cannot be {config.sqs_region!r}: a region is 1 to 32 of the characters a-z 0-9 -"
        )
    if config.sqs_base_url and not re.fullmatch(r"https?://[!-~]+", config.sqs_base_url):
        raise InvalidSetting(
            f"{of('sqs_base_url')} cannot be {config.sqs_base_url!r}: it begins with http:// or https:// and a host"
        )


def adopted(running: Config, wanted: Config) -> tuple[Config, list[str]]:
    """What a running server takes over of the settings as they are now, and the names of those that have changed and
    need a restart."""
    changed = [name for name in SETTINGS if getattr(running, name) != getattr(wanted, name)]
    # A server that has begun without TLS has clients that speak none.
    fixed = {"tls_cert", "tls_key"} if bool(running.tls_cert) != bool(wanted.tls_cert) else set()
    live = {name: getattr(wanted, name) for name in changed if SETTINGS[name].live and name not in fixed}
    return dataclasses.replace(running, **live), [name for name in changed if name not in live]


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def place_of(store: str) -> str:
    """Where a store is, in words that mean the same in every folder."""
    from penstock.stores.kinds import find_kind

    kind = find_kind(store)
    path = None if kind is None else kind.path(store)
    return shown(store) if path is None else str(path.absolute())


def shown(value: Value) -> str:
    """A value as a person would write it, without the password that a store's address may carry."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return _PASSWORD.sub(r"\1\2***", str(value))


def shown_value(setting: Setting, value: Value) -> str:
    """The same, and nothing of a secret."""
    return "***" if setting.secret and value else shown(value)


def _from_its_file(name: str, text: str, origin: str, directory: Path) -> str:
    if not text.startswith(_IN_FILE):
        return text
    path = text.removeprefix(_IN_FILE)
    try:
        secret = (directory / path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidSetting(f"{name} ({origin}): file {path} cannot be read: {why}") from error
    if not secret:
        raise InvalidSetting(f"{name} ({origin}): file {path} is empty")
    return secret


def _read_file(path: Path, name: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSetting(f"file {name} cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # not TOML, or not even UTF-8
        raise InvalidSetting(f"file {name} is not TOML: {error}") from error


def _known(name: str, origin: str) -> Setting:
    if name in SETTINGS:
        return SETTINGS[name]
    raise InvalidSetting(f"{name!r} ({origin}) is not a setting{_closest(name, SETTINGS)}")


def _closest(name: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    match = get_close_matches(name, known, n=1)
    return f"; did you mean {match[0]!r}?" if match else f"; there are {', '.join(known)}"


def _parsed(setting: Setting, given: object, origin: str) -> Value:
    """The value that a text from the environment or the command line stands for."""
    text = str(given)
    try:
        value = _BOOLEANS[text.strip().lower()] if setting.kind is bool else setting.kind(text)
    except (KeyError, ValueError):
        raise _wrong(setting, text, origin) from None
    return _within(setting, value, text, origin)


def _typed(setting: Setting, given: object, origin: str) -> Value:
    """A value that already has a type, as from TOML."""
    if setting.kind is float and type(given) is int:
        given = float(given)
    # Exactly this type: to Python, True is a whole number.
    if type(given) is not setting.kind:
        raise _wrong(setting, given, origin)
    return _within(setting, cast(Value, given), given, origin)


def _within(setting: Setting, value: Value, given: object, origin: str) -> Value:
    if setting.choices:
        good = value in setting.choices
    elif isinstance(value, str):
        good = bool(value) or setting.empty
    elif setting.least is not None and setting.most is not None:
        # Written so that "not a number" fails it.
        good = setting.least <= value <= setting.most
    else:
        good = True
    if not good:
        raise _wrong(setting, given, origin)
    return value


def _wrong(setting: Setting, given: object, origin: str) -> InvalidSetting:
    said = "***" if setting.secret else repr(given)
    return InvalidSetting(f"{setting.name} ({origin}) cannot be {said}: it must be {setting.right}")


def _warnings(environ: Mapping[str, str]) -> list[str]:
    variables = {setting.variable: setting for setting in SETTINGS.values()}
    return [
        f"environment {name} is not a setting{_closest(name, variables)}"
        for name in sorted(environ)
        if name.startswith(ENVIRONMENT)
        and not name.startswith(_FOR_TESTS)
        and name not in variables
        and name not in _READ_ELSEWHERE
    ]
