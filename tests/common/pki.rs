//! Certificates for tests, good and odd, as PEM files that rustls, eapol_test and openssl read alike.
//!
//! Made once for each build folder (RSA keys of 4,096 bits take their time) and kept in `target/tmp`. A test includes
//! this file by its path, `#[path = "common/pki.rs"] mod pki;`, and asks for [`folder`].
//!
//! | file | what |
//! |---|---|
//! | `ca.pem` `ca.key` | the root, P-256, `/C=GB/O=Example/CN=Example Root` |
//! | `server.pem` `server.key` | under it, `radius.example` |
//! | `client.pem` `client.key` | under it, `laptop-7`, with names of every kind |
//! | `p384-*` `p521-*` `ed25519-*` `rsa2048-*` `rsa4096-*` | the same three over other keys, each under a root of its own |
//! | `intermediate.pem` `intermediate.key` | a CA under the root |
//! | `chain.pem` `chain.key` | a client under the intermediate, which follows it in the file; `incomplete.pem`: without it |
//! | `server-chain.pem` `server-chain.key` | a server likewise |
//! | `deep.pem` `deep.key` `server-deep.pem` `server-deep.key` | a client and a server under three intermediates |
//! | `p384-chain.*` `p384-server-chain.*` `p384-deep.*` `p384-server-deep.*`, and of the other keys | likewise, of their kind |
//! | `foreign-ca.pem`, `foreign.pem` `foreign.key` | another root, `/C=GB/O=Elsewhere/CN=Foreign Root`, and a client of it |
//! | `namesake.pem` | a client of another CA that has the root's name |
//! | `expired.pem` `future.pem` `wrong-eku.pem` `any-eku.pem` `no-eku.pem` `no-signing.pem` `ca-as-client.pem` | under the root |
//! | `sha1.pem` `v1.pem` `rsa1024.pem` | under the root, by openssl |
//! | `pss.pem` `pss-sha256.pem` | likewise, with RSA keys that may sign by RSASSA-PSS only, with any hash and with SHA-256 |
//! | `adcs-computer.pem` `adcs-user.pem` `intune.pem` `jamf.pem` | under the root, as Microsoft's CA, Intune by SCEP and Jamf Pro shape them |
//! | `odd-names.pem` | `/`, `\`, control characters, several common names, a BMPString |
//!
//! Each `X.pem` of a client has its key in `X.key`, PKCS#8.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, CustomExtension, DistinguishedName, DnType,
    DnValue, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, RsaKeySize, SanType,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Changes when what is made changes, so that nothing old is found.
const EDITION: u32 = 6;

const DAY: Duration = Duration::from_secs(86_400);
const UPN: &[u64] = &[1, 3, 6, 1, 4, 1, 311, 20, 2, 3];

/// The folder with the files above; makes them when they are not there.
pub fn folder() -> Result<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pki-{EDITION}"));
    if fs::metadata(&folder)
        .and_then(|made| made.modified())
        .is_ok_and(is_recent)
    {
        return Ok(folder);
    }
    // Tests of one program wait for each other; of several programs each makes its own, and the first to finish gives it
    // the name.
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pki-{EDITION}-{}", std::process::id()));
    fs::create_dir_all(&own)?;
    make(&own)?;
    if folder.exists() && !is_recent(fs::metadata(&folder)?.modified()?) {
        fs::rename(&folder, own.with_extension("old"))?;
    }
    if let Err(error) = fs::rename(&own, &folder) {
        fs::remove_dir_all(&own)?;
        if !folder.exists() {
            return Err(error.into());
        }
    }
    Ok(folder)
}

/// The certificates are good for a year; they are made anew long before that.
fn is_recent(made: SystemTime) -> bool {
    made.elapsed().is_ok_and(|age| age < DAY * 100)
}

fn make(dir: &Path) -> Result<()> {
    let root = root("Example", "Example Root", KeyPair::generate()?)?;
    write(dir, "ca", &root.pem(), root.key())?;
    server(dir, "server", &root, KeyPair::generate()?)?;
    client(dir, "client", &root, KeyPair::generate()?, |_| Ok(()))?;
    for (kind, key) in [
        (
            "p384",
            (|| KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384)) as fn() -> _,
        ),
        ("p521", || KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512)),
        ("ed25519", ed25519),
        ("rsa2048", || {
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)
        }),
        ("rsa4096", || {
            KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096)
        }),
    ] {
        let root = self::root("Example", &format!("Example Root {kind}"), key()?)?;
        write(dir, &format!("{kind}-ca"), &root.pem(), root.key())?;
        server(dir, &format!("{kind}-server"), &root, key()?)?;
        client(dir, &format!("{kind}-client"), &root, key()?, |_| Ok(()))?;
        let params = authority("Example", &format!("Example Issuing CA {kind}"));
        let intermediate = CertifiedIssuer::signed_by(params, key()?, &root)?;
        // the keys of the certificates without an intermediate serve again: RSA keys take long to make
        chains(dir, &format!("{kind}-"), &format!("{kind}-client"), &intermediate, &key)?;
    }

    let intermediate = {
        let params = authority("Example", "Example Issuing CA 1");
        CertifiedIssuer::signed_by(params, KeyPair::generate()?, &root)?
    };
    write(dir, "intermediate", &intermediate.pem(), intermediate.key())?;
    client(dir, "incomplete", &intermediate, KeyPair::generate()?, |_| Ok(()))?;
    chains(dir, "", "incomplete", &intermediate, &|| KeyPair::generate())?;
    let chain = fs::read_to_string(dir.join("chain.pem"))?;
    let leaf = chain.replace(&intermediate.pem(), "");
    fs::write(dir.join("incomplete.pem"), leaf)?;

    let foreign = self::root("Elsewhere", "Foreign Root", KeyPair::generate()?)?;
    write(dir, "foreign-ca", &foreign.pem(), foreign.key())?;
    client(dir, "foreign", &foreign, KeyPair::generate()?, |_| Ok(()))?;
    let namesake = self::root("Example", "Example Root", KeyPair::generate()?)?;
    client(dir, "namesake", &namesake, KeyPair::generate()?, |params| {
        params.use_authority_key_identifier_extension = false; // or it would be known for another by its key identifier
        Ok(())
    })?;

    let now = rcgen::date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let odd = |name: &str, change: &dyn Fn(&mut CertificateParams) -> Result<()>| {
        client(dir, name, &root, KeyPair::generate()?, change).map(drop)
    };
    odd("expired", &|params| {
        (params.not_before, params.not_after) = (now - DAY * 30, now - DAY * 2);
        Ok(())
    })?;
    odd("future", &|params| {
        (params.not_before, params.not_after) = (now + DAY * 200, now + DAY * 300);
        Ok(())
    })?;
    odd("wrong-eku", &|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(())
    })?;
    odd("any-eku", &|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
        Ok(())
    })?;
    odd("no-eku", &|params| {
        params.extended_key_usages.clear();
        Ok(())
    })?;
    odd("no-signing", &|params| {
        params.key_usages = vec![KeyUsagePurpose::KeyAgreement];
        Ok(())
    })?;
    odd("ca-as-client", &|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(())
    })?;
    odd("adcs-computer", &|params| {
        params.distinguished_name = name(&[(DnType::CommonName, "LAPTOP-7.corp.example.com")]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.subject_alt_names = vec![SanType::DnsName("LAPTOP-7.corp.example.com".try_into()?)];
        params.custom_extensions = microsoft();
        Ok(())
    })?;
    odd("adcs-user", &|params| {
        let component = DnType::CustomDnType(vec![0, 9, 2342, 19200300, 100, 1, 25]);
        params.distinguished_name = name(&[(component, "corp"), (DnType::CommonName, "Seven of Leeds")]);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 311, 10, 3, 4]),
            ExtendedKeyUsagePurpose::EmailProtection,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.subject_alt_names = vec![SanType::OtherName((UPN.to_vec(), "seven@corp.example.com".into()))];
        params.custom_extensions = microsoft();
        Ok(())
    })?;
    odd("intune", &|params| {
        params.distinguished_name = name(&[(DnType::CommonName, "3f2b8a10-1d2c-4b7e-9a44-0c51e7d0a7b7")]);
        let account = "tag:microsoft.com,2022-09-14:sid:S-1-5-21-1004336348-1177238915-682003330-1107";
        params.subject_alt_names = vec![SanType::URI(account.try_into()?)];
        params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        Ok(())
    })?;
    odd("jamf", &|params| {
        params.distinguished_name = name(&[
            (DnType::CommonName, "C02XK1ABCDEF"),
            (DnType::OrganizationName, "Example"),
        ]);
        params.subject_alt_names.clear();
        params.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        Ok(())
    })?;
    odd("odd-names", &|params| {
        let mut name = DistinguishedName::new();
        name.push(DnType::OrganizationName, "Ex/ample + Co");
        name.push(DnType::OrganizationalUnitName, "a\\b");
        name.push(DnType::CommonName, DnValue::BmpString("M\u{fc}ller".try_into()?));
        name.push(DnType::CustomDnType(vec![1, 2, 3, 4, 5]), "line\nfeed");
        params.distinguished_name = name;
        Ok(())
    })?;
    by_openssl(dir)
}

fn name(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    parts.iter().for_each(|(kind, value)| name.push(kind.clone(), *value));
    name
}

/// What Microsoft's CA adds: the account's SID, the template, its policies, a distribution point in the directory.
fn microsoft() -> Vec<CustomExtension> {
    let wrap = |tag: u8, inner: &[u8]| [&[tag, u8::try_from(inner.len()).unwrap_or(0)], inner].concat();
    let sid = wrap(0x04, b"S-1-5-21-1004336348-1177238915-682003330-1107");
    let kind = [0x06, 10, 0x2B, 6, 1, 4, 1, 0x82, 0x37, 25, 2, 1];
    let sid = wrap(0x30, &wrap(0xA0, &[&kind[..], &wrap(0xA0, &sid)].concat()));
    let template = wrap(
        0x30,
        &[&[0x06, 8, 0x2B, 6, 1, 4, 1, 0x82, 0x37, 21][..], &[0x02, 1, 100]].concat(),
    );
    let client_auth = [0x06, 8, 0x2B, 6, 1, 5, 5, 7, 3, 2];
    let policies = wrap(0x30, &wrap(0x30, &client_auth));
    let point = wrap(
        0x86,
        b"ldap:///CN=Example%20Root,CN=CDP,DC=corp,DC=example,DC=com?certificateRevocationList",
    );
    let point = wrap(0x30, &wrap(0x30, &wrap(0xA0, &wrap(0xA0, &point))));
    [
        (&[1, 3, 6, 1, 4, 1, 311, 25, 2][..], sid),
        (&[1, 3, 6, 1, 4, 1, 311, 21, 7], template),
        (&[1, 3, 6, 1, 4, 1, 311, 21, 10], policies),
        (&[2, 5, 29, 31], point),
    ]
    .into_iter()
    .map(|(oid, value)| CustomExtension::from_oid_content(oid, value))
    .collect()
}

/// By openssl, which does not read what rcgen writes for this kind.
fn ed25519() -> std::result::Result<KeyPair, rcgen::Error> {
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ED25519"])
        .output();
    let pem = made.map(|made| made.stdout).unwrap_or_default();
    KeyPair::from_pem(&String::from_utf8_lossy(&pem))
}

fn root(organisation: &str, name: &str, key: KeyPair) -> Result<Issuer> {
    Ok(CertifiedIssuer::self_signed(authority(organisation, name), key)?)
}

fn authority(organisation: &str, name: &str) -> CertificateParams {
    let mut params = params(organisation, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    params
}

fn params(organisation: &str, name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let since_1970 = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since_1970.as_secs());
    (params.not_before, params.not_after) = (now - DAY, now + DAY * 365);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CountryName, "GB");
    params.distinguished_name.push(DnType::OrganizationName, organisation);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn server(dir: &Path, name: &str, issuer: &Issuer, key: KeyPair) -> Result<()> {
    let mut params = params("Example", "radius.example");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![SanType::DnsName("radius.example".try_into()?)];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, issuer)?;
    write(dir, name, &certificate.pem(), &key)
}

fn client(
    dir: &Path,
    name: &str,
    issuer: &Issuer,
    key: KeyPair,
    change: impl FnOnce(&mut CertificateParams) -> Result<()>,
) -> Result<Certificate> {
    let mut params = params("Example", "laptop-7");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = vec![
        SanType::DnsName("laptop-7.example.com".try_into()?),
        SanType::DnsName("laptop-7.corp.example.com".try_into()?),
        SanType::Rfc822Name("seven@example.com".try_into()?),
        SanType::URI("urn:uuid:7".try_into()?),
        SanType::OtherName((UPN.to_vec(), "seven@corp.example.com".into())),
    ];
    params.use_authority_key_identifier_extension = true;
    change(&mut params)?;
    let certificate = params.signed_by(&key, issuer)?;
    write(dir, name, &certificate.pem(), &key)?;
    Ok(certificate)
}

/// A client and a server under an intermediate, and under three, which follow each in its file, the nearest first.
fn chains(
    dir: &Path,
    prefix: &str,
    client_key: &str,
    intermediate: &Issuer,
    new_key: &dyn Fn() -> std::result::Result<KeyPair, rcgen::Error>,
) -> Result<()> {
    let key = |name: &str| -> Result<KeyPair> {
        let pem = fs::read_to_string(dir.join(format!("{name}.key")))?;
        Ok(KeyPair::from_pem(&pem)?)
    };
    let second = CertifiedIssuer::signed_by(authority("Example", "Example Issuing CA 2"), new_key()?, intermediate)?;
    let third = CertifiedIssuer::signed_by(authority("Example", "Example Issuing CA 3"), new_key()?, &second)?;
    let all = [third.pem(), second.pem(), intermediate.pem()].concat();
    for (kind, issuer, issuers) in [("chain", intermediate, intermediate.pem()), ("deep", &third, all)] {
        let (chain, server_chain) = (format!("{prefix}{kind}"), format!("{prefix}server-{kind}"));
        client(dir, &chain, issuer, key(client_key)?, |_| Ok(()))?;
        server(dir, &server_chain, issuer, key(&format!("{prefix}server"))?)?;
        for name in [chain, server_chain] {
            let file = dir.join(format!("{name}.pem"));
            fs::write(&file, fs::read_to_string(&file)? + &issuers)?;
        }
    }
    Ok(())
}

fn write(dir: &Path, name: &str, pem: &str, key: &KeyPair) -> Result<()> {
    fs::write(dir.join(format!("{name}.pem")), pem)?;
    let path = dir.join(format!("{name}.key"));
    fs::write(&path, key.serialize_pem())?;
    #[cfg(unix)]
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(())
}

/// What no careful library makes: SHA-1, version 1, an RSA key of 1,024 bits; and keys that rcgen does not make.
fn by_openssl(dir: &Path) -> Result<()> {
    fs::write(
        dir.join("client.ext"),
        "extendedKeyUsage=clientAuth\nkeyUsage=digitalSignature\n\
         subjectAltName=DNS:old,email:old@example.com,otherName:1.3.6.1.4.1.311.20.2.3;UTF8:old@example.com\n",
    )?;
    let ec = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let rsa = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"];
    let pss = ["-algorithm", "RSA-PSS", "-pkeyopt", "rsa_keygen_bits:2048"];
    let pss_hash = [
        "-pkeyopt",
        "rsa_pss_keygen_md:sha256",
        "-pkeyopt",
        "rsa_pss_keygen_mgf1_md:sha256",
        "-pkeyopt",
        "rsa_pss_keygen_saltlen:32",
    ];
    let pss_sha256 = [&pss[..], &pss_hash].concat();
    let extensions = ["-extfile", "client.ext"];
    for (name, key, sign) in [
        ("sha1", &ec[..], [&["-sha1"][..], &extensions].concat()),
        ("v1", &ec, vec!["-sha256"]),
        ("rsa1024", &rsa, [&["-sha256"][..], &extensions].concat()),
        ("pss", &pss, [&["-sha256"][..], &extensions].concat()),
        ("pss-sha256", &pss_sha256, [&["-sha256"][..], &extensions].concat()),
    ] {
        let (pem, keyfile, request) = (format!("{name}.pem"), format!("{name}.key"), format!("{name}.csr"));
        openssl(dir, &[&["genpkey"][..], key, &["-out", &keyfile]].concat())?;
        openssl(
            dir,
            &[
                "req",
                "-new",
                "-key",
                &keyfile,
                "-subj",
                "/C=GB/O=Example/CN=old",
                "-out",
                &request,
            ],
        )?;
        let issue = [
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "300",
            "-out",
            &pem,
        ];
        openssl(dir, &[&issue[..], &sign].concat())?;
    }
    Ok(())
}

fn openssl(dir: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl").args(arguments).current_dir(dir).output();
    let output = output.map_err(|error| format!("cannot run `openssl`, which these tests need: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "openssl {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    )
    .into())
}
