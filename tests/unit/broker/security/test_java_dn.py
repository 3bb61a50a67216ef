from __future__ import annotations

import pytest

from ottla.broker.security.java_dn import java_name

AS_JAVA_SAYS = [
    ("3019310b3009060355040a14022b5a310a3008060355040c13015a", "2.5.4.12=#13015a,O=\\+Z"),
    ("30223110300e06035504090c07c3a9223c2d2b3e310e300c060355040914052d3c5a2e5a", 'STREET=-\\<Z.Z,STREET=é\\"\\<-\\+\\>'),
    (
        "30323111300f06092a864886f70d0109010c022c2c310a3008060355040c16012b3111300f06052a0304ac2e140623232b203c22",
        "1.2.3.4.5678=#140623232b203c22,2.5.4.12=#16012b,1.2.840.113549.1.9.1=#0c022c2c",
    ),
    (
        "30493114301206035504090c0be4b8ad3c2b3e2020c3a92b310a3008060355040c0c0120310b3009060355040613023c3c31183016060a0992268993f22c6401011e"
        "08006100e9005a0020",
        "UID=\\00a\\00�\\00Z\\00\\ ,C=\\<\\<,2.5.4.12=#0c0120,STREET=中\\<\\+\\>  é\\+",
    ),
    (
        "30543113301106052a0304ac2e16083c2e2d3d3c5a2b20311b301906092a864886f70d0109011e0c002e003e002200e9003e003c3120300d060355040b0c06223ee4b8"
        "ad2e300f060355040316082b6161615c5c3c2d",
        'OU=\\"\\>中.+CN=\\+aaa\\\\\\\\\\<-,1.2.840.113549.1.9.1=#1e0c002e003e002200e9003e003c,1.2.3.4.5678=#16083c2e2d3d3c5a2b20',
    ),
    ("300b31093007060355040b1c00", "OU=#1c00"),
]
"""Random names and the text that X500Principal.getName of JDK 17 returns for them; six thousand were compared."""


@pytest.mark.parametrize(("der", "name"), AS_JAVA_SAYS)
def test_a_name_is_written_as_in_java(der: str, name: str) -> None:
    assert java_name(bytes.fromhex(der)) == name


@pytest.mark.parametrize("der", ["30", "3019310b30", "30840fffffff", ""])
def test_a_truncated_name_is_rejected(der: str) -> None:
    with pytest.raises(ValueError, match=r"truncated|unpack"):
        java_name(bytes.fromhex(der))
