//! Certificates as products make them: names, extensions and their order as seen from outside, values made up.

use crate::der::*;
use crate::make::*;
use crate::shape::{Shape, World};

const TEMPLATE_NAME: &str = "1.3.6.1.4.1.311.20.2";
const TEMPLATE: &str = "1.3.6.1.4.1.311.21.7";
const APPLICATION_POLICIES: &str = "1.3.6.1.4.1.311.21.10";
const SECURITY_ID: &str = "1.3.6.1.4.1.311.25.2";
const SMART_CARD: &str = "1.3.6.1.4.1.311.20.2.2";
const EMAIL_PROTECTION: &str = "1.3.6.1.5.5.7.3.4";
const ENCRYPTING_FILES: &str = "1.3.6.1.4.1.311.10.3.4";
const IPSEC: &str = "1.3.6.1.5.5.8.2.2";
const CRL_POINTS: &str = "2.5.29.31";
const AUTHORITY_INFORMATION: &str = "1.3.6.1.5.5.7.1.1";

pub fn all(world: &World) -> Vec<Shape> {
    let mut shapes = active_directory(world);
    shapes.extend(device_management(world));
    shapes.extend(hardware(world));
    shapes.extend(authorities(world));
    shapes
}

fn microsoft(parts: &mut Parts) {
    let points = "ldap:///CN=Example%20Root,CN=ca1,CN=CDP,CN=Public%20Key%20Services,CN=Services,CN=Configuration,\
                  DC=corp,DC=example,DC=com?certificateRevocationList?base?objectClass=cRLDistributionPoint";
    let issuers = "ldap:///CN=Example%20Root,CN=AIA,CN=Public%20Key%20Services,CN=Services,CN=Configuration,\
                   DC=corp,DC=example,DC=com?cACertificate?base?objectClass=certificationAuthority";
    let point = sequence(&[&explicit(
        0,
        &[&explicit(0, &[&uri(points), &uri("http://pki.example.com/root.crl")])],
    )]);
    let issuer = |location: &str| sequence(&[&oid("1.3.6.1.5.5.7.48.2"), &uri(location)]);
    parts.set(Extension::new(CRL_POINTS, &sequence(&[&point])));
    parts.set(Extension::new(
        AUTHORITY_INFORMATION,
        &sequence(&[&issuer(issuers), &issuer("http://pki.example.com/root.crt")]),
    ));
    parts.set(key_id());
    parts.set(Extension::new(AUTHORITY_KEY_ID, &sequence(&[&implicit(0, &[9; 20])])));
}

fn key_id() -> Extension {
    Extension::new(KEY_ID, &octet_string(&[7; 20]))
}

fn template(parts: &mut Parts, purposes: &[&str]) {
    let template = sequence(&[
        &oid("1.3.6.1.4.1.311.21.8.12345678.1234567.8901234.5678901.2345678.12.1234567.7654321"),
        &integer(&[100]),
        &integer(&[12]),
    ]);
    let policies: Vec<u8> = purposes.iter().flat_map(|purpose| sequence(&[&oid(purpose)])).collect();
    parts.set(Extension::new(TEMPLATE, &template));
    parts.set(Extension::new(APPLICATION_POLICIES, &sequence(&[&policies])));
}

/// The extension that ties a certificate to an account, since 2022.
fn security_id(sid: &str) -> Extension {
    let value = explicit(
        0,
        &[
            &oid("1.3.6.1.4.1.311.25.2.1"),
            &explicit(0, &[&octet_string(sid.as_bytes())]),
        ],
    );
    Extension::new(SECURITY_ID, &sequence(&[&value]))
}

const SID: &str = "S-1-5-21-1004336348-1177238915-682003330-1107";

fn user_name() -> Vec<u8> {
    name(&[
        attribute(DOMAIN_COMPONENT, &ia5("com")),
        attribute(DOMAIN_COMPONENT, &ia5("example")),
        attribute(DOMAIN_COMPONENT, &ia5("corp")),
        attribute(COMMON_NAME, &utf8("Users")),
        attribute(COMMON_NAME, &utf8("Seven of Leeds")),
    ])
}

fn active_directory(world: &World) -> Vec<Shape> {
    let of = |name, purposes: &[&str], subject: Vec<u8>, names: &[Vec<u8>], change: &dyn Fn(&mut Parts)| {
        world.shape(name, |parts| {
            parts.subject = subject;
            parts.set(key_usage(0xA0));
            parts.set(extended_key_usage(purposes));
            parts.set(alternative_names(names));
            microsoft(parts);
            change(parts);
        })
    };
    let computer = [CLIENT_AUTH, SERVER_AUTH];
    let user = [ENCRYPTING_FILES, EMAIL_PROTECTION, CLIENT_AUTH];
    let machine = || common_name(&printable("LAPTOP-7.corp.example.com"));
    let person = || upn("seven@corp.example.com");
    let controller = [CLIENT_AUTH, SERVER_AUTH, SMART_CARD, "1.3.6.1.5.2.3.5"];
    vec![
        of(
            "adcs-computer",
            &computer,
            machine(),
            &[dns("LAPTOP-7.corp.example.com")],
            &|parts| {
                parts.set(Extension::new(TEMPLATE_NAME, &bmp("Machine")));
                parts.set(security_id(SID));
            },
        ),
        of(
            "adcs-workstation",
            &[CLIENT_AUTH],
            name(&[]),
            &[dns("LAPTOP-7.corp.example.com")],
            &|parts| {
                template(parts, &[CLIENT_AUTH]);
                let names = alternative_names(&[dns("LAPTOP-7.corp.example.com")]);
                parts.set(names.critical());
                parts.set(security_id(SID));
            },
        ),
        of("adcs-user", &user, user_name(), &[person()], &|parts| {
            parts.set(Extension::new(TEMPLATE_NAME, &bmp("User")));
            parts.set(security_id(SID));
            let aes = sequence(&[&oid("2.16.840.1.101.3.4.1.42")]);
            parts.set(Extension::new("1.2.840.113549.1.9.15", &sequence(&[&aes])));
        }),
        of(
            "adcs-user-with-email",
            &user,
            user_name(),
            &[person(), email("seven@example.com")],
            &|parts| {
                template(parts, &user);
            },
        ),
        of("adcs-user-without-sid", &user, user_name(), &[person()], &|parts| {
            template(parts, &user)
        }),
        of(
            "adcs-smart-card",
            &[SMART_CARD, CLIENT_AUTH],
            user_name(),
            &[person()],
            &|parts| {
                template(parts, &[SMART_CARD, CLIENT_AUTH]);
                parts.set(security_id(SID));
            },
        ),
        of(
            "adcs-smart-card-logon-only",
            &[SMART_CARD],
            user_name(),
            &[person()],
            &|parts| template(parts, &[SMART_CARD]),
        ),
        of(
            "adcs-domain-controller",
            &controller,
            machine(),
            &[
                other_name("1.3.6.1.4.1.311.25.1", &octet_string(&[7; 16])),
                dns("dc1.corp.example.com"),
                dns("CORP"),
            ],
            &|parts| parts.set(Extension::new(TEMPLATE_NAME, &bmp("DomainController"))),
        ),
        of(
            "adcs-server",
            &[SERVER_AUTH],
            machine(),
            &[dns("www.corp.example.com")],
            &|parts| template(parts, &[SERVER_AUTH]),
        ),
        of(
            "adcs-enrolment-agent",
            &["1.3.6.1.4.1.311.20.2.1"],
            user_name(),
            &[person()],
            &|_| (),
        ),
        of(
            "ndes-ipsec-offline",
            &[IPSEC],
            common_name(&printable("laptop-7")),
            &[dns("laptop-7")],
            &|parts| {
                parts.set(Extension::new(TEMPLATE_NAME, &bmp("IPSECIntermediateOffline")));
            },
        ),
        of(
            "ndes-client-offline",
            &[CLIENT_AUTH],
            common_name(&printable("laptop-7")),
            &[dns("laptop-7")],
            &|parts| {
                template(parts, &[CLIENT_AUTH]);
            },
        ),
        of(
            "adcs-attested-by-tpm",
            &[CLIENT_AUTH],
            machine(),
            &[dns("LAPTOP-7.corp.example.com")],
            &|parts| {
                template(parts, &[CLIENT_AUTH]);
                let attested = sequence(&[&oid("1.3.6.1.4.1.311.21.30")]);
                parts.set(Extension::new("2.5.29.32", &sequence(&[&attested])));
            },
        ),
        self_signed(world, "windows-self-signed", common_name(&printable("LAPTOP-7"))),
    ]
}

/// A device that has signed for itself.
fn self_signed(world: &World, name: &'static str, subject: Vec<u8>) -> Shape {
    let mut parts = world.root.device(&world.device.key);
    (parts.issuer, parts.subject) = (subject.clone(), subject);
    world.raw(name, parts.signed_by(&world.device))
}

fn device_management(world: &World) -> Vec<Shape> {
    let guid = "3f2b8a10-1d2c-4b7e-9a44-0c51e7d0a7b7";
    let account = "tag:microsoft.com,2022-09-14:sid:S-1-5-21-1004336348-1177238915-682003330-1107";
    let of = |name, subject: Vec<u8>, names: &[Vec<u8>], change: &dyn Fn(&mut Parts)| {
        world.shape(name, |parts| {
            parts.subject = subject;
            parts.set(key_usage(0xA0));
            match names {
                [] => parts.without(ALTERNATIVE_NAMES),
                names => parts.set(alternative_names(names)),
            }
            parts.set(key_id());
            change(parts);
        })
    };
    let cn = |text: &str| common_name(&utf8(text));
    let device_uri = || uri(&format!("IntuneDeviceId://{guid}"));
    vec![
        of(
            "intune-scep-device",
            cn(guid),
            &[dns("laptop-7.example.com"), uri(account)],
            &|parts| microsoft(parts),
        ),
        of(
            "intune-scep-user",
            cn("Seven of Leeds"),
            &[upn("seven@example.com"), email("seven@example.com"), uri(account)],
            &|parts| {
                microsoft(parts);
                template(parts, &[CLIENT_AUTH]);
            },
        ),
        of("intune-pkcs-user", cn("seven"), &[upn("seven@example.com")], &|parts| {
            parts.set(extended_key_usage(&[CLIENT_AUTH, EMAIL_PROTECTION, ENCRYPTING_FILES]));
            microsoft(parts);
        }),
        of(
            "intune-cloud-pki",
            cn(guid),
            &[upn("seven@example.com"), device_uri()],
            &|parts| {
                let point = sequence(&[&explicit(
                    0,
                    &[&explicit(0, &[&uri("http://primary-cdn.pki.example.net/crl/7.crl")])],
                )]);
                parts.set(Extension::new(CRL_POINTS, &sequence(&[&point])));
            },
        ),
        of("intune-mdm-device-ca", cn(guid), &[], &|parts| {
            let tenant = Extension::new("1.2.840.113556.5.6", &octet_string(&[7; 16]));
            parts
                .extensions
                .extend([tenant, Extension::new("1.2.840.113556.5.10", &octet_string(&[8; 16]))]);
        }),
        of("entra-registered-device", cn(guid), &[], &|parts| {
            parts
                .extensions
                .push(Extension::new("1.2.840.113556.1.5.284.2", &element(0x04, &[&[7; 16]])));
            parts
                .extensions
                .push(Extension::new("1.2.840.113556.1.5.284.8", &element(0x04, &[b"EU"])));
        }),
        of(
            "jamf-adcs-connector",
            cn("seven"),
            &[upn("seven@corp.example.com"), dns("mac-7.corp.example.com")],
            &|parts| {
                microsoft(parts);
                template(parts, &[CLIENT_AUTH]);
            },
        ),
        of(
            "jamf-built-in-ca",
            name(&[
                attribute(COMMON_NAME, &printable("C02XK1ABCDEF")),
                attribute(ORGANISATION, &printable("Example")),
            ]),
            &[],
            &|parts| {
                parts.set(Extension::new(BASIC_CONSTRAINTS, &sequence(&[])).critical());
            },
        ),
        of(
            "jamf-scep-with-variables",
            cn("$COMPUTERNAME"),
            &[dns("$COMPUTERNAME.example.com")],
            &|_| (),
        ),
        of(
            "apple-mdm-identity",
            name(&[
                attribute(COMMON_NAME, &utf8("Seven\u{2019}s iPad")),
                attribute("0.9.2342.19200300.100.1.1", &utf8("7")),
            ]),
            &[],
            &|_| (),
        ),
        of(
            "android-enterprise",
            cn("pixel-7"),
            &[email("seven@example.com"), uri("urn:imei:350000000000007")],
            &|_| (),
        ),
        of(
            "chromebook",
            name(&[
                attribute("2.5.4.5", &printable("5CD0077ABC")),
                attribute(COMMON_NAME, &utf8("5CD0077ABC")),
            ]),
            &[dns("5cd0077abc.chromeos.example.com")],
            &|_| (),
        ),
        of(
            "workspace-one",
            cn("seven:laptop"),
            &[upn("seven@example.com"), email("seven@example.com")],
            &|parts| template(parts, &[CLIENT_AUTH]),
        ),
    ]
}

fn hardware(world: &World) -> Vec<Shape> {
    let of = |name, subject: Vec<u8>, change: &dyn Fn(&mut Parts)| {
        world.shape(name, |parts| {
            parts.subject = subject;
            parts.without(ALTERNATIVE_NAMES);
            parts.without(EXTENDED_KEY_USAGE);
            change(parts);
        })
    };
    let forever = sequence(&[&utc_time("200301000000Z"), &generalized_time("99991231235959Z")]);
    let serial = |text: &str| attribute("2.5.4.5", &printable(text));
    let cn = |text: &str| attribute(COMMON_NAME, &printable(text));
    let o = |text: &str| attribute(ORGANISATION, &printable(text));
    let module = sequence(&[&oid("1.3.6.1.4.1.99999.1.7"), &octet_string(b"SN0077")]);
    let tpm = || {
        let name = name(&[
            attribute("2.23.133.2.1", &utf8("id:494E5443")),
            attribute("2.23.133.2.2", &utf8("TGL")),
            attribute("2.23.133.2.3", &utf8("id:00010002")),
        ]);
        alternative_names(&[explicit(4, &[&name])]).critical()
    };
    vec![
        of(
            "phone-with-makers-certificate",
            name(&[
                serial("PID:CP-8841 SN:FCH0077"),
                cn("CP-8841-SEP001122334455"),
                attribute("2.5.4.11", &printable("CTG")),
                o("Maker Inc."),
            ]),
            &|parts| {
                parts.set(key_usage(0xA8));
                parts.set(extended_key_usage(&[SERVER_AUTH, CLIENT_AUTH]));
            },
        ),
        of(
            "phone-with-local-certificate",
            name(&[cn("SEP001122334455"), o("Example")]),
            &|parts| parts.set(key_usage(0xB8)),
        ),
        of("phone-named-by-its-mac", name(&[cn("001122334455")]), &|parts| {
            parts.set(key_usage(0xF0))
        }),
        of(
            "access-point",
            name(&[
                o("Maker Inc."),
                cn("AP-00112233445566"),
                attribute(EMAIL_ADDRESS, &ia5("support@maker.example")),
            ]),
            &|_| (),
        ),
        of(
            "device-identity-802-1ar",
            name(&[
                o("Maker AB"),
                serial("00408c000077"),
                cn("maker-00408c000077-eccp256-1"),
            ]),
            &|parts| {
                parts.validity = forever.clone();
                parts.set(alternative_names(&[other_name("1.3.6.1.5.5.7.8.4", &module)]));
            },
        ),
        of("device-identity-of-a-tpm", name(&[serial("0077")]), &|parts| {
            parts.validity = forever.clone();
            parts.set(extended_key_usage(&["2.23.133.11.1.2"]));
            parts.set(tpm());
        }),
        of("tpm-endorsement-key", name(&[]), &|parts| {
            parts.set(key_usage(0x20));
            parts.set(extended_key_usage(&["2.23.133.8.1"]));
            parts.set(tpm());
        }),
        of("tpm-attestation-key", name(&[]), &|parts| {
            parts.set(extended_key_usage(&["2.23.133.8.3"]));
            parts.set(tpm());
        }),
        self_signed(
            world,
            "printer-self-signed",
            name(&[cn("HPE7A7B0"), o("HP"), attribute("2.5.4.11", &printable("HP-IPG"))]),
        ),
        of(
            "plant-controller",
            name(&[
                cn("PLC_1"),
                attribute("2.5.4.8", &printable("-")),
                attribute("2.5.4.7", &printable("-")),
            ]),
            &|parts| {
                parts.set(alternative_names(&[
                    uri("urn:PLC_1:opcua"),
                    implicit(7, &[192, 168, 0, 1]),
                ]));
                parts.set(extended_key_usage(&[SERVER_AUTH, CLIENT_AUTH]));
            },
        ),
    ]
}

fn authorities(world: &World) -> Vec<Shape> {
    let of = |name, change: &dyn Fn(&mut Parts)| world.shape(name, change);
    let cps = sequence(&[&oid("1.3.6.1.5.5.7.2.1"), &ia5("https://pki.example.com/cps")]);
    vec![
        of("openssl-ca-script", &|parts| {
            parts.subject = name(&[
                attribute(COUNTRY, &printable("AU")),
                attribute("2.5.4.8", &utf8("Some-State")),
                attribute(ORGANISATION, &utf8("Internet Widgits Pty Ltd")),
                attribute(COMMON_NAME, &utf8("laptop-7")),
                attribute(EMAIL_ADDRESS, &ia5("seven@example.com")),
            ]);
            parts.extensions.clear();
            parts.set(Extension::new(BASIC_CONSTRAINTS, &sequence(&[])));
            parts.set(Extension::new(
                "2.16.840.1.113730.1.13",
                &ia5("OpenSSL Generated Certificate"),
            ));
            parts.set(key_id());
        }),
        of("easy-rsa", &|parts| {
            parts.subject = common_name(&utf8("laptop-7"));
            parts.without(ALTERNATIVE_NAMES);
            parts.set(Extension::new(BASIC_CONSTRAINTS, &sequence(&[])));
            let issuer = explicit(1, &[&explicit(4, &[&world.root.name])]);
            parts.set(Extension::new(
                AUTHORITY_KEY_ID,
                &sequence(&[&implicit(0, &[9; 20]), &issuer, &implicit(2, &[0x4D, 0x15])]),
            ));
        }),
        of("ejbca-with-policies", &|parts| {
            let policy = sequence(&[&oid("1.3.6.1.4.1.99999.2"), &sequence(&[&cps])]);
            parts.set(Extension::new("2.5.29.32", &sequence(&[&policy])));
            parts.set(Extension::new(BASIC_CONSTRAINTS, &sequence(&[])).critical());
        }),
        of("vault-for-a-month", &|parts| {
            parts.validity = sequence(&[&utc_time("270114075930Z"), &utc_time("270215080000Z")]);
            parts.subject = common_name(&utf8("laptop-7.example.com"));
            parts.set(key_usage(0xA8));
            parts.set(extended_key_usage(&[SERVER_AUTH, CLIENT_AUTH]));
        }),
        of("step-ca-for-a-day", &|parts| {
            parts.validity = sequence(&[&utc_time("270114080000Z"), &utc_time("270115080100Z")]);
            parts.set(extended_key_usage(&[SERVER_AUTH, CLIENT_AUTH]));
            let provisioner = sequence(&[&integer(&[1]), &octet_string(b"laptops"), &octet_string(b"key-1")]);
            parts.set(Extension::new("1.3.6.1.4.1.37476.9000.64.1", &provisioner));
        }),
        of("workload-identity", &|parts| {
            parts.subject = name(&[
                attribute(COUNTRY, &printable("US")),
                attribute(ORGANISATION, &utf8("SPIRE")),
            ]);
            parts.set(alternative_names(&[uri("spiffe://example.org/laptop/7")]));
            parts.set(extended_key_usage(&[SERVER_AUTH, CLIENT_AUTH]));
        }),
        of("government-card", &|parts| {
            parts.set(key_usage(0xC0));
            parts.set(extended_key_usage(&[CLIENT_AUTH, SMART_CARD, "1.3.6.1.5.5.7.3.21"]));
            let policy = sequence(&[&oid("2.16.840.1.101.3.2.1.3.13")]);
            parts.set(Extension::new("2.5.29.32", &sequence(&[&policy])));
            let fasc_n = other_name("2.16.840.1.101.3.6.6", &octet_string(&[0xD4; 25]));
            parts.set(alternative_names(&[
                fasc_n,
                upn("1234567890@example.mil"),
                uri("urn:uuid:3f2b8a10-1d2c-4b7e-9a44-0c51e7d0a7b7"),
            ]));
        }),
        of("eduroam-pseudonym", &|parts| {
            parts.subject = name(&[
                attribute(DOMAIN_COMPONENT, &ia5("org")),
                attribute(COMMON_NAME, &utf8("a7f3b2@example.edu")),
            ]);
            parts.set(alternative_names(&[email("a7f3b2@example.edu")]));
        }),
        of("code-signing", &|parts| {
            parts.set(extended_key_usage(&["1.3.6.1.5.5.7.3.3"]))
        }),
        of("web-server", &|parts| {
            parts.set(extended_key_usage(&[SERVER_AUTH]));
            parts.set(alternative_names(&[dns("www.example.com"), dns("example.com")]));
            parts.set(Extension::new("1.3.6.1.4.1.11129.2.4.2", &octet_string(&[0, 2, 0, 0])));
        }),
    ]
}
