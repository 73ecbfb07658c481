"""What a room makes for one session: the short code, the certificate, the tokens."""

import hashlib
import secrets
import ssl
import tempfile
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_KINDS = """
amber ample arctic azure bold brave breezy brief bright brisk broad bronze bubbly busy calm candid careful cheery chief classic
clean clear clever cloudy copper coral cosmic cosy crisp curious daring decent deep double eager early earnest easy electric
elegant even fair famous fancy fast fearless festive fine firm fluffy fond frank fresh frosty gentle giant glad global golden
grand green happy hardy hazel hidden honest humble indigo ivory jade jolly keen kind large lively local loyal lucky lunar major
mellow merry mighty mild modern modest neat noble novel olive open pastel patient plain polite proud quick quiet rapid rare
"""
_ANIMALS = """
albatross alpaca ant antelope badger bat bear beaver bee beetle bison boar bobcat buffalo butterfly camel canary caribou cat
cheetah cicada cobra condor coyote crab crane cricket crow deer dingo dog dolphin donkey dove dragonfly duck eagle eel egret elk
emu falcon ferret finch firefly flamingo fox frog gazelle gecko gibbon giraffe goat goose gull hamster hare hawk hedgehog heron
hippo horse hyena ibex iguana impala jackal jaguar jay kestrel kiwi koala lark lemur leopard lion lizard llama lobster lynx
magpie marten meerkat mole moose moth mouse newt ocelot octopus orca osprey otter owl oyster panda panther parrot pelican puffin
"""


def new_code() -> str:
    """Return a code that one can say across a room: `QUIET-FALCON`."""
    return f"{secrets.choice(_KINDS.split())}-{secrets.choice(_ANIMALS.split())}".upper()


def new_token() -> str:
    """Return a secret that nobody can guess."""
    return secrets.token_urlsafe(24)


def hidden(token: str) -> str:
    """Return what is kept of a token: enough to know it again, and nothing that could be used."""
    return hashlib.sha256(token.encode()).hexdigest()


class Certificate:
    """A certificate that learners know by its fingerprint, the SHA-256 of its DER form; `pem` has it with its key."""

    def __init__(self, pem: bytes):
        self.pem = pem
        self.fingerprint = hashlib.sha256(x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)).digest()

    @classmethod
    def new(cls) -> "Certificate":
        """Return one for this session alone."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "coursekit room")])
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=8))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return cls(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM) + private)

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to show it; the key lies in a file for an instant, readable by its owner alone."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(self.pem)
            file.flush()
            context.load_cert_chain(file.name)
        return context
