//! Chains that a constraint forbids (RFC 5280 sections 4.2.1.9, 4.2.1.10 and 6.1), and dates of the CAs themselves.

#[path = "common/pki.rs"]
mod pki;

#[cfg(test)]
mod tests {
    use super::pki;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use portreeve::reason::Reason;
    use portreeve::trust::{Clock, Demands, Settings, TrustSet};
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
        verify_as(Demands::default(), authorities, chain, now)
    }

    fn verify_as(
        demands: Demands,
        authorities: &[&Issuer],
        chain: &[&CertificateDer<'static>],
        now: UnixTime,
    ) -> Option<(Reason, String)> {
        let set = set(demands, authorities);
        let presented: Vec<_> = chain[1..].iter().map(|der| (*der).clone()).collect();
        let refused = set.verifier().verify(chain[0], &presented, now).err()?;
        Some((refused.reason, refused.detail.unwrap_or_default()))
    }

    fn set(demands: Demands, authorities: &[&Issuer]) -> TrustSet {
        let (dir, own) = (pki::folder().unwrap(), tempfile::tempdir().unwrap());
        let file = own.path().join("ca.pem");
        std::fs::write(&file, authorities.iter().map(|ca| ca.pem()).collect::<String>()).unwrap();
        let settings = Settings {
            demands,
            ..Settings::new(dir.join("server.pem"), dir.join("server.key"), vec![file])
        };
        TrustSet::load(&settings, Arc::new(Clock)).unwrap()
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
            "more CAs between it and a client CA than `max_depth`, 6",
        );
        let six = leaf(&issuers[5], params("client"));
        let chain: Vec<_> = std::iter::once(&six)
            .chain(issuers.iter().map(|issuer| issuer.der()))
            .collect();
        assert_eq!(verify(&[&root], &chain, now()), None);
    }

    #[test]
    fn max_depth_counts_the_cas_between_a_certificate_and_a_client_ca() {
        let root = root(ca("root"));
        let first = under(&root, ca("1"));
        let second = under(&first, ca("2"));
        let client = leaf(&second, params("client"));
        let chain = [&client, second.der(), first.der()];
        for (authorities, depth) in [
            (&[&root][..], 2),
            (&[&first], 1),
            (&[&second], 0),
            (&[&root, &first], 2),
        ] {
            let demands = |max_depth| Demands {
                max_depth,
                ..Demands::default()
            };
            assert_eq!(verify_as(demands(depth), authorities, &chain, now()), None, "{depth}");
            if let Some(less) = depth.checked_sub(1) {
                assert_refused(
                    verify_as(demands(less), authorities, &chain, now()),
                    Reason::CertificateConstraint,
                    &format!("more CAs between it and a client CA than `max_depth`, {less}"),
                );
            }
        }
    }

    #[test]
    fn any_extended_key_usage_is_enough_where_it_is_allowed() {
        use rcgen::ExtendedKeyUsagePurpose::{Any, ClientAuth, ServerAuth};
        let root = root(ca("root"));
        // of a CA it is no restriction
        let mut any = ca("any");
        any.extended_key_usages = vec![Any];
        let issuer = under(&root, any);
        for (purposes, is_good, is_allowed) in [
            (vec![ClientAuth], true, true),
            (vec![ServerAuth, ClientAuth], true, true),
            (vec![], true, true),
            (vec![Any], false, true),
            (vec![ServerAuth, Any], false, true),
            (vec![ServerAuth], false, false),
        ] {
            let mut client = params("client");
            client.extended_key_usages = purposes.clone();
            let client = leaf(&issuer, client);
            for (allow_any_eku, expected) in [(false, is_good), (true, is_allowed)] {
                let demands = Demands {
                    allow_any_eku,
                    ..Demands::default()
                };
                let found = verify_as(demands, &[&root], &[&client, issuer.der()], now());
                match expected {
                    true => assert_eq!(found, None, "{purposes:?}"),
                    false => {
                        let cure = ", which `allow_any_eku` would let in";
                        let (reason, detail) = found.unwrap();
                        assert_eq!(reason, Reason::CertificateWrongUsage);
                        assert_eq!(detail.ends_with(cure), is_allowed, "{detail}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_root_that_was_signed_by_another_is_reached_by_either() {
        let (old, new) = (root(ca("old root")), root(ca("new root")));
        let key = KeyPair::from_pem(&new.key().serialize_pem()).unwrap();
        let crossed = CertifiedIssuer::signed_by(ca("new root"), key, &old).unwrap();
        let issuer = under(&new, ca("issuer"));
        let client = leaf(&issuer, params("client"));
        let sent = [&client, issuer.der(), crossed.der()];
        for (authorities, chain, is_good) in [
            (&[&old][..], &sent[..], true),
            (&[&new], &sent, true),
            (&[&new], &sent[..2], true),
            (&[&old], &sent[..2], false),
            // the cross certificate is configured here, beside the root that signed it, or beside both
            (&[&old, &crossed], &sent[..2], true),
            (&[&crossed, &old, &new], &sent[..2], true),
            // without the root that signed it, it is trusted as it stands
            (&[&crossed], &sent[..2], true),
        ] {
            let found = verify(authorities, chain, now());
            assert_eq!(found.is_none(), is_good, "{found:?}");
        }
    }

    #[test]
    fn cas_that_have_signed_each_other_are_trusted_as_they_stand() {
        let (one, other, apart) = (root(ca("one")), root(ca("other")), root(ca("apart")));
        let signed = |issuer: &Issuer, of: &Issuer, name| {
            let key = KeyPair::from_pem(&of.key().serialize_pem()).unwrap();
            CertifiedIssuer::signed_by(ca(name), key, issuer).unwrap()
        };
        let (by_other, by_one) = (signed(&other, &one, "one"), signed(&one, &other, "other"));
        let client = leaf(&one, params("client"));
        assert_eq!(verify(&[&by_other, &by_one], &[&client], now()), None);
        // a root that has nothing to do with them does not make them anybody's intermediates
        assert_eq!(verify(&[&apart, &by_other, &by_one], &[&client], now()), None);
        // one with which they can be verified does
        let set = set(Demands::default(), &[&one, &by_one, &by_other]);
        let anchors: Vec<_> = set.authorities().iter().map(|ca| ca.is_anchor).collect();
        assert_eq!(anchors, [true, false, false]);
    }

    #[test]
    fn a_chain_in_any_order_with_strangers_and_twice() {
        let root = root(ca("root"));
        let first = under(&root, ca("1"));
        let second = under(&first, ca("2"));
        let stranger = self::root(ca("stranger"));
        let client = leaf(&second, params("client"));
        let (root_der, one, two) = (root.der(), first.der(), second.der());
        for chain in [
            &[&client, one, two][..],
            &[&client, two, one, root_der],
            &[&client, root_der, one, two],
            &[&client, stranger.der(), two, two, one, &client, one],
        ] {
            assert_eq!(verify(&[&root], chain, now()), None);
        }
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
        assert_refused(
            found,
            Reason::CertificateWrongUsage,
            "its issuer `/CN=servers` is not for client",
        );
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
            let roots: Vec<_> = (0..count)
                .map(|number| root(ca(&format!("root number {number}"))))
                .collect();
            let set = set(Demands::default(), &roots.iter().collect::<Vec<_>>());
            set.verifier().root_hint_subjects().len()
        };
        assert_eq!((hints(1), hints(10), hints(40)), (1, 10, 0));
    }
}
