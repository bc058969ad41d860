"""Each failure of the hub, the network or the disk has its own cause and its own next step, and no token in it."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import fetching, resolve
from specdec_cli.hub.failures import Request, explain
from specdec_cli.hub.secrecy import scrub
from tests.hub.standin import Fault, StandIn

TOKEN = "hf_secretsecretsecret"
CONTENT = b"GGUF" + bytes(1000)
REQUEST = Request("the model o/r", "o/r", "main", "m.gguf", "https://huggingface.co", Path("cache"), TOKEN, False)


def failure(reference: str, offline: bool = False) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        resolve(reference, offline=offline)
    assert caught.value.what == f"Cannot fetch the model {reference}."
    assert TOKEN not in str(caught.value)
    assert "{" not in caught.value.why + caught.value.fix
    return caught.value


@pytest.fixture
def repo(hub: StandIn) -> StandIn:
    hub.add("owner/repo", **{"m-Q4_K_M.gguf": CONTENT, "m-F16.gguf": CONTENT + b"1", "README.md": b""})
    hub.add("owner/weights", **{"model.safetensors": b"0"})
    return hub


@pytest.mark.parametrize(
    ("fault", "why", "fix"),
    [
        (Fault("status", status=401), "no repository owner/repo, or it is private", "HF_TOKEN"),
        (
            Fault("status", status=401, headers={"X-Error-Message": "Invalid credentials in Authorization header"}),
            "did not accept the token",
            "/settings/tokens",
        ),
        (Fault("status", status=403, headers={"X-Error-Code": "GatedRepo"}), "is gated", "Ask for access at"),
        (
            Fault("status", status=403, headers={"X-Error-Message": "token lacks scope"}),
            "token lacks scope",
            "read access",
        ),
        (
            Fault("status", status=403, headers={"X-Error-Message": "Access to this resource is disabled."}),
            "disabled",
            "another",
        ),
        (Fault("status", status=404), "no repository owner/repo", "Check the spelling"),
        (Fault("status", status=407), "proxy asks for a password", "HTTPS_PROXY"),
        (Fault("status", status=418), "status 418", "See "),
        (Fault("status", status=429), "limits the number of requests", "Wait a few minutes"),
        (
            Fault("status", status=429, headers={"Retry-After": "17"}),
            "limits the number of requests",
            "Wait 17 seconds",
        ),
        (Fault("status", status=429, headers={"RateLimit": '"api";r=0;t=55'}), "limits the number", "Wait 55 seconds"),
        (Fault("status", status=502), "failed with status 502", "Wait a little"),
        (Fault("html"), "Something other than the hub answered", "in a browser"),
    ],
)
@pytest.mark.parametrize("reference", ["owner/repo", "hf:owner/repo/m-F16.gguf"])
def test_what_the_hub_answers(repo: StandIn, fault: Fault, why: str, fix: str, reference: str) -> None:
    repo.faults.append(fault)
    error = failure(reference)
    assert why in error.why
    assert fix in error.fix
    assert len(repo.asked) <= 2  # said at once, not after half a minute of trying


def test_a_gated_repository_asks_for_a_login_only_without_one(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.faults.append(Fault("status", status=403, headers={"X-Error-Code": "GatedRepo"}))
    assert "hf auth login" in failure("owner/repo").fix
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert "hf auth login" not in failure("owner/repo").fix


@pytest.mark.parametrize(
    ("reference", "why", "fix"),
    [
        ("owner/none", "no repository owner/none", "/owner/none"),
        ("hf:owner/repo/none.gguf", "has no file none.gguf", "/owner/repo/tree/main"),
        ("hf:owner/repo@none/m-F16.gguf", "no revision 'none'", "/owner/repo/tree/main"),
        ("owner/repo:Q6_K", "has no Q6_K. It has Q4_K_M, F16.", "Write owner/repo:Q4_K_M."),
        ("owner/weights", "holds no GGUF model", "owner/weights-GGUF"),
    ],
)
def test_what_is_not_there(repo: StandIn, reference: str, why: str, fix: str) -> None:
    error = failure(reference)
    assert why in error.why
    assert fix in error.fix


def test_a_file_that_the_hub_has_dropped_is_not_replaced_by_the_copy_in_the_cache(repo: StandIn) -> None:
    resolve("hf:owner/repo/m-F16.gguf")
    del repo.files["owner/repo"]["m-F16.gguf"]
    assert "has no file" in failure("hf:owner/repo/m-F16.gguf").why


def test_offline_and_not_in_the_cache(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failure("owner/repo", offline=True)
    assert "offline mode is on" in error.why
    assert "--offline" in error.fix
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in failure("owner/repo").fix
    assert repo.asked == []


def test_a_listing_that_never_comes_is_given_up(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    repo.faults.append(Fault("stall", "/tree/"))
    assert "did not answer in time" in failure("owner/repo").why


def test_a_host_that_refuses_connections(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        error = failure("owner/repo")
    assert "cannot be reached" in error.why
    assert "give a local GGUF" in error.fix


def test_a_host_without_encryption(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", repo.endpoint.replace("http:", "https:"))
    assert "No secure connection" in failure("owner/repo").why


def test_a_proxy_that_refuses(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", repo.endpoint.replace("://", "://user:password@"))
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    error = failure("owner/repo")
    assert "The proxy refused" in error.why
    assert "password" not in str(error)


def test_a_certificate_that_is_not_trusted() -> None:
    class ConnectError(Exception):
        """As the transport raises it."""

    error = ConnectError("connect")
    error.__context__ = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    error.__suppress_context__ = True
    explained = explain(error, REQUEST)
    assert explained is not None
    assert "certificate of huggingface.co is not trusted" in explained.why
    assert "SSL_CERT_FILE" in explained.fix


@pytest.mark.parametrize("refused", [PermissionError(13, "Permission denied", "x"), OSError(30, "Read-only file system", "x")])
def test_a_cache_that_cannot_be_written(refused: OSError) -> None:
    explained = explain(refused, REQUEST)
    assert explained is not None
    assert explained.why == f"The cache cannot be written: {refused.strerror}: x"
    assert "HF_HOME" in explained.fix


def test_a_cache_that_is_a_file(repo: StandIn, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"")
    assert str(cache) in failure("owner/repo").fix


def test_a_fault_of_this_program_is_not_dressed_up(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(fetching, "_listing", broken)
    with pytest.raises(ZeroDivisionError):
        resolve("owner/repo")
    assert explain(KeyError("name"), REQUEST) is None


@pytest.mark.parametrize("endpoint", ["hub.example.org", "ftp://host", "https://"])
def test_an_endpoint_that_is_no_address(cache: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ModelFileError, match="HF_ENDPOINT"):
        resolve("owner/repo")


def test_a_bundle_of_certificates_that_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(ModelFileError, match="SSL_CERT_FILE names no file"):
        resolve("owner/repo")


@pytest.mark.parametrize("token", ["hf_with\x01control", "hf_secret words", "hf_sécret"])
def test_a_malformed_token_is_refused_before_a_header_shows_it(
    repo: StandIn, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ModelFileError) as caught:
        resolve("owner/repo")
    assert "hf_" not in str(caught.value)
    assert repo.asked == []


def test_a_token_that_the_server_repeats_is_hidden(repo: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    repo.faults.append(Fault("status", status=403, headers={"X-Error-Message": f"{TOKEN} may not"}))
    assert "***" in failure("owner/repo").why


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Bearer abc.def", "Bearer ***"),
        ("hf_abcdEFGH1234 failed", "*** failed"),
        ("http://me:pass@proxy:80/x", "http://***@proxy:80/x"),
        ("GET https://cdn/x?Signature=s&Key=k now", "GET https://cdn/x?*** now"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secrets_are_taken_out_of_text(text: str, shown: str) -> None:
    assert scrub(text) == shown


@given(token=st.text("abcdefXYZ0123456789_-.", min_size=8), before=st.text(), after=st.text())
def test_the_token_is_never_shown(token: str, before: str, after: str) -> None:
    assert token not in scrub(before + token + after, token)
