//! Chains that a constraint forbids (RFC 5280 sections 4.2.1.9, 4.2.1.10 and 6.1), and dates of the CAs themselves.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use portreeve::reason::Reason;
    use portreeve::trust::{Clock, Settings, TrustSet};
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, GeneralSubtree, IsCa, KeyPair,
        KeyUsagePurpose, NameConstraints, SanType,
    };
    use rustls_pki_types::{CertificateDer, UnixTime};

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn ca(name: &str) -> CertificateParams {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn root(params: CertificateParams) -> Issuer {
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn under(issuer: &Issuer, params: CertificateParams) -> Issuer {
        CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), issuer).unwrap()
    }

    fn leaf(issuer: &Issuer, params: CertificateParams) -> CertificateDer<'static> {
        params
            .signed_by(&KeyPair::generate().unwrap(), issuer)
            .unwrap()
            .der()
            .clone()
    }

    /// What becomes of a chain under the client CAs `authorities`.
    fn verify(authorities: &[&Issuer], chain: &[&CertificateDer<'static>], now: UnixTime) -> Option<(Reason, String)> {
        let (dir, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let file = own.path().join("ca.pem");
        std::fs::write(&file, authorities.iter().map(|ca| ca.pem()).collect::<String>()).unwrap();
        let settings = Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![file]);
        let set = TrustSet::load(&settings, Arc::new(Clock)).unwrap();
        let presented: Vec<_> = chain[1..].iter().map(|der| (*der).clone()).collect();
        let refused = set.verifier().verify(chain[0], &presented, now).err()?;
        Some((refused.reason, refused.detail.unwrap_or_default()))
    }

    fn assert_refused(found: Option<(Reason, String)>, reason: Reason, text: &str) {
        let (found, detail) = found.unwrap();
        assert_eq!(found, reason, "{detail}");
        assert!(detail.contains(text), "{detail}");
    }

    #[test]
    fn path_length() {
        let mut short = ca("short");
        short.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let root = root(ca("root"));
        let first = under(&root, short);
        let second = under(&first, ca("second"));
        let client = leaf(&second, params("client"));
        let found = verify(&[&root], &[&client, second.der(), first.der()], now());
        assert_refused(found, Reason::CertificateConstraint, "path length");
    }

    #[test]
    fn a_chain_of_too_many_intermediates() {
        let root = root(ca("root"));
        let mut issuers = vec![under(&root, ca("1"))];
        for number in 2..=7 {
            issuers.push(under(issuers.last().unwrap(), ca(&number.to_string())));
        }
        let client = leaf(issuers.last().unwrap(), params("client"));
        let chain: Vec<_> = std::iter::once(&client)
            .chain(issuers.iter().map(|issuer| issuer.der()))
            .collect();
        assert_refused(
            verify(&[&root], &chain, now()),
            Reason::CertificateConstraint,
            "too long",
        );
        let six = leaf(&issuers[5], params("client"));
        let chain: Vec<_> = std::iter::once(&six)
            .chain(issuers.iter().map(|issuer| issuer.der()))
            .collect();
        assert_eq!(verify(&[&root], &chain, now()), None);
    }

    #[test]
    fn name_constraints() {
        let mut only_example = ca("only example.com");
        only_example.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("example.com".into())],
            excluded_subtrees: vec![],
        });
        let root = root(ca("root"));
        let issuer = under(&root, only_example);
        for (name, is_good) in [("laptop.example.com", true), ("laptop.elsewhere.com", false)] {
            let mut client = params("client");
            client.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
            let found = verify(&[&root], &[&leaf(&issuer, client), issuer.der()], now());
            assert_eq!(
                found.as_ref().map(|found| found.0),
                (!is_good).then_some(Reason::CertificateConstraint),
                "{found:?}"
            );
        }
    }

    #[test]
    fn issuers_that_may_not_issue() {
        // webpki leaves keyUsage alone; RFC 5280 section 6.1.4 (n) does not
        let root = root(ca("root"));
        let mut no_signing = ca("no keyCertSign");
        no_signing.key_usages = vec![KeyUsagePurpose::CrlSign];
        for params in [no_signing, params("no CA")] {
            let issuer = under(&root, params);
            let client = leaf(&issuer, self::params("client"));
            let found = verify(&[&root], &[&client, issuer.der()], now());
            assert_refused(found, Reason::CertificateConstraint, "may not sign certificates");
        }
    }

    #[test]
    fn critical_extensions_that_are_not_understood() {
        let root = root(ca("root"));
        let mut client = params("client");
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        client.custom_extensions = vec![extension.clone()];
        assert_eq!(verify(&[&root], &[&leaf(&root, client.clone())], now()), None);
        extension.set_criticality(true);
        client.custom_extensions = vec![extension];
        let found = verify(&[&root], &[&leaf(&root, client)], now());
        assert_refused(found, Reason::CertificateConstraint, "not understood: 1.2.3.4");
    }

    #[test]
    fn an_issuer_for_servers_only() {
        let root = root(ca("root"));
        let mut servers = ca("servers");
        servers.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let issuer = under(&root, servers);
        let found = verify(&[&root], &[&leaf(&issuer, params("client")), issuer.der()], now());
        assert_refused(found, Reason::CertificateWrongUsage, "an issuer in its chain");
    }

    #[test]
    fn an_issuers_dates_and_whose_they_are() {
        let today = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now().as_secs());
        let root = root(ca("root"));
        let mut over = ca("over");
        over.not_after = today - Duration::from_secs(60);
        let issuer = under(&root, over);
        let client = leaf(&issuer, params("client"));
        let found = verify(&[&root], &[&client, issuer.der()], now());
        assert_refused(found, Reason::CertificateExpired, "its issuer `/CN=over` expired at");
        // the same as a client CA: an intermediate, or trusted as it stands
        for authorities in [&[&root, &issuer][..], &[&issuer]] {
            let found = verify(authorities, &[&client], now());
            assert_refused(found, Reason::CertificateExpired, "the client CA `/CN=over` expired at");
        }
        let mut early = ca("early");
        early.not_before = today + Duration::from_secs(3_600);
        let early = self::root(early);
        let found = verify(&[&early], &[&leaf(&early, params("client"))], now());
        assert_refused(
            found,
            Reason::CertificateNotYetValid,
            "the client CA `/CN=early` valid from",
        );
    }

    #[test]
    fn a_root_renewed_over_its_key_goes_on() {
        let today = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(now().as_secs());
        let key = KeyPair::generate().unwrap().serialize_pem();
        let with_key = |params| CertifiedIssuer::self_signed(params, KeyPair::from_pem(&key).unwrap()).unwrap();
        let mut old = ca("root");
        old.not_after = today - Duration::from_secs(60);
        let (old, new) = (with_key(old), with_key(ca("root")));
        let client = leaf(&old, params("client"));
        assert_eq!(
            verify(&[&old], &[&client], now()).map(|found| found.0),
            Some(Reason::CertificateExpired)
        );
        assert_eq!(verify(&[&old, &new], &[&client], now()), None);
        assert_eq!(verify(&[&new, &old], &[&client], now()), None);
    }

    #[test]
    fn names_of_cas_are_sent_while_they_are_few() {
        use rustls::server::danger::ClientCertVerifier;
        let hints = |count: usize| {
            let (dir, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
            let file = own.path().join("ca.pem");
            let all: String = (0..count)
                .map(|number| root(ca(&format!("root number {number}"))).pem())
                .collect();
            std::fs::write(&file, all).unwrap();
            let settings = Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![file]);
            TrustSet::load(&settings, Arc::new(Clock))
                .unwrap()
                .verifier()
                .root_hint_subjects()
                .len()
        };
        assert_eq!((hints(1), hints(10), hints(40)), (1, 10, 0));
    }
}
