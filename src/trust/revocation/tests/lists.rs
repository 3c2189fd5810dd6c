//! Which list is in force, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rcgen::{CrlDistributionPoint, KeyUsagePurpose};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;

use super::authority::{Ca, unix};
use super::web::Web;
use crate::trust::revocation::lists::Lists;
use crate::trust::revocation::status::{Known, Status};
use crate::trust::revocation::target::Target;
use crate::trust::revocation::{Common, Fetch, Mode, Settings, Source};
use crate::trust::verify::Link;

/// A clock that is ahead by what a test says.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<AtomicI64>);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = unix() + self.0.load(Ordering::Relaxed);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().ok()?)))
    }
}

struct World {
    lists: Arc<Lists>,
    clock: Clock,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let (clock, folder) = (Clock::default(), tempfile::tempdir().unwrap());
        let settings = Settings {
            mode: Mode::Require,
            order: vec![Source::Crl],
            crl: vec![folder.path().to_owned()],
            ocsp_responder: None,
            ocsp_nonce: false,
            fetch: Fetch::From(vec!["127.0.0.1".to_owned()]),
            timeout: Duration::from_secs(5),
            max_age: Duration::from_secs(3_600),
            max_stale: Duration::ZERO,
            check_chain: true,
            crl_max_octets: 1 << 20,
        };
        let common = Common::of(&settings, Arc::new(clock.clone()));
        World {
            lists: Arc::new(Lists::new(&settings, common, Arc::default())),
            clock,
            folder,
        }
    }

    fn file(&self, name: &str, list: &[u8]) {
        std::fs::write(self.folder.path().join(name), list).unwrap();
    }

    fn known(&self, link: &Arc<Link>) -> Known {
        self.lists.known(&Target::read(link).unwrap())
    }
}

/// A device's certificate with this serial number, and where it says that its list is.
fn device(ca: &Ca, serial: u64, urls: &[&str]) -> Arc<Link> {
    let device = ca.issue("device", |params| {
        params.serial_number = Some(serial.into());
        if !urls.is_empty() {
            let uris = urls.iter().map(|url| (*url).to_owned()).collect();
            params.crl_distribution_points = vec![CrlDistributionPoint { uris }];
        }
    });
    Arc::new(Link {
        certificate: device.der,
        issuer: ca.der(),
    })
}

fn is_revoked(status: &Status) -> bool {
    matches!(status, Status::Revoked(_))
}

/// Waits until this holds, as something goes on in the background.
async fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_fetched_again_in_the_background_and_an_older_one_changes_nothing() {
    let (world, web, ca) = (World::new(), Web::start().await, Ca::new("ca"));
    let (one, two) = (device(&ca, 1, &[&web.url()]), device(&ca, 2, &[&web.url()]));
    web.put(Some(ca.list(&[1], unix() - 100, 1)));
    assert_eq!(world.known(&one), Known::Ask);
    assert!(is_revoked(&world.lists.ask(&one).await));
    assert_eq!(world.known(&two), Known::Settled(Status::Good));
    let refreshing = tokio::spawn(Arc::clone(&world.lists).refresh());

    web.put(Some(ca.list(&[2], unix() - 50, 2)));
    until(|| {
        world.lists.points().hurry();
        matches!(world.known(&two), Known::Settled(Status::Revoked(_)))
    })
    .await;
    assert_eq!(world.known(&one), Known::Settled(Status::Good));

    // what somebody has kept, what somebody else has signed, nothing at all
    for page in [
        Some(ca.list(&[], unix() - 99, 3)),
        Some(Ca::new("ca").list(&[], unix() - 10, 9)),
        None,
    ] {
        let before = web.requests();
        web.put(page);
        until(|| {
            world.lists.points().hurry();
            web.requests() > before + 1 // the first may have been under way before the page was there
        })
        .await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(matches!(world.known(&two), Known::Settled(Status::Revoked(_))));
        assert_eq!(world.known(&one), Known::Settled(Status::Good));
    }
    refreshing.abort();
}

#[tokio::test]
async fn what_failed_is_not_asked_for_again_at_once() {
    let (world, web, ca) = (World::new(), Web::start().await, Ca::new("ca"));
    let link = device(&ca, 1, &[&web.url()]);
    for _ in 0..5 {
        let Status::Unavailable(why) = world.lists.ask(&link).await else {
            panic!("there is no list")
        };
        assert!(why.contains("answers with HTTP status 404"), "{why}");
        assert!(matches!(world.known(&link), Known::Settled(Status::Unavailable(_))));
    }
    assert_eq!(web.requests(), 1);
}

#[tokio::test]
async fn the_second_url_is_tried_where_the_first_has_nothing() {
    let (world, empty, web, ca) = (World::new(), Web::start().await, Web::start().await, Ca::new("ca"));
    web.put(Some(ca.list(&[], unix() - 10, 1)));
    let link = device(&ca, 1, &["ldap:///CN=ca", &empty.url(), &web.url()]);
    assert_eq!(world.lists.ask(&link).await, Status::Good);
    assert_eq!((empty.requests(), web.requests()), (1, 1));
}

#[tokio::test]
async fn the_list_of_a_ca_of_the_same_name_is_none() {
    let (world, ca, namesake) = (World::new(), Ca::new("ca"), Ca::new("ca"));
    world.file("namesake.crl", &namesake.list(&[1], unix() - 10, 9));
    world.file("ca.crl", &ca.list(&[2], unix() - 20, 1));
    assert!(world.lists.reload().is_empty());
    let (of_ca, of_namesake) = (device(&ca, 1, &[]), device(&namesake, 1, &[]));
    assert_eq!(world.known(&of_ca), Known::Ask);
    assert_eq!(world.lists.ask(&of_ca).await, Status::Good);
    assert_eq!(world.known(&of_namesake), Known::Ask, "the other's key is another");
    assert!(is_revoked(&world.lists.ask(&of_namesake).await));
    assert_eq!(world.known(&of_ca), Known::Settled(Status::Good));
}

/// RFC 5280 section 6.3.3 (f): "If a key usage extension is present in the CRL issuer's certificate, verify that the cRLSign
/// bit is set."
#[tokio::test]
async fn a_ca_that_may_not_sign_lists_has_none() {
    let world = World::new();
    // rcgen refuses to sign such a list: the same key and name, with and without the right to
    let allowed = Ca::new("ca");
    let forbidden = allowed.renewed(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
    world.file("ca.crl", &allowed.list(&[], unix() - 10, 1));
    assert!(world.lists.reload().is_empty());
    let device = allowed.issue("device", |_| ());
    let link = |issuer| {
        Arc::new(Link {
            certificate: device.der.clone(),
            issuer,
        })
    };
    assert!(matches!(
        world.lists.ask(&link(forbidden)).await,
        Status::Unavailable(_)
    ));
    let world = World::new();
    world.file("ca.crl", &allowed.list(&[], unix() - 10, 1));
    assert!(world.lists.reload().is_empty());
    assert_eq!(world.lists.ask(&link(allowed.der())).await, Status::Good);
}

#[tokio::test]
async fn clocks_that_go_wrong_let_nobody_in() {
    const DAY: i64 = 86_400;
    let (world, ca) = (World::new(), Ca::new("ca"));
    world.file("ca.crl", &ca.list(&[1], unix() - 10, 1));
    assert!(world.lists.reload().is_empty());
    let (revoked, good) = (device(&ca, 1, &[]), device(&ca, 2, &[]));
    assert_eq!(world.lists.ask(&good).await, Status::Good);
    for (ahead, is_good) in [
        (0, true),
        (DAY - 60, true),
        (DAY + 60, false),
        (400 * DAY, false),
        (-DAY, true),
    ] {
        world.clock.0.store(ahead, Ordering::Relaxed);
        assert_eq!(world.known(&good) == Known::Settled(Status::Good), is_good, "{ahead} s");
        assert!(matches!(world.known(&revoked), Known::Settled(Status::Revoked(_))));
    }
    // 1970: every list is from the future, and none comes into force
    let early = World::new();
    early.clock.0.store(-unix(), Ordering::Relaxed);
    early.file("ca.crl", &ca.list(&[1], unix() - 10, 1));
    assert!(early.lists.reload().is_empty());
    assert!(matches!(early.lists.ask(&good).await, Status::Unavailable(_)));
}

#[tokio::test]
async fn lists_have_room_for_four_of_the_largest() {
    let (world, ca) = (World::new(), Ca::new("ca"));
    let serials: Vec<u64> = (1..=15_000).map(|number| number << 40).collect();
    let list = ca.list(&serials, unix() - 10, 1);
    assert!((600_000..(1 << 20)).contains(&list.len()));
    for number in 0..9 {
        world.file(&format!("{number}.crl"), &list);
    }
    let errors = world.lists.reload();
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert!(error.to_string().contains("too many lists, or too large"), "{error}");
    // what was read is used
    assert_eq!(world.lists.ask(&device(&ca, 1, &[])).await, Status::Good);
}
