//! The edits of the command line: what they do, and what they refuse.

use portreeve::mac::MacAddress;
use portreeve::radius::dictionary::Dictionary;
use portreeve::store::edit::{EditError, Edited, Outcome, clients, macs, policies, sites};
use portreeve::store::set::Policy;

use crate::support::{Database, Result, SMALL};

fn dictionary() -> &'static Dictionary {
    Dictionary::builtin()
}

async fn small() -> Result<Database> {
    let database = Database::new().await?;
    database.plain().await?.run(SMALL).await?;
    Ok(database)
}

fn refused<T>(result: std::result::Result<T, EditError>) -> String {
    match result {
        Ok(_) => "not refused".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn outcome(edited: std::result::Result<Edited, EditError>) -> Result<Outcome> {
    Ok(edited?.outcome)
}

fn mac(text: &str) -> Result<MacAddress> {
    Ok(text.parse()?)
}

fn policy(rules: &[&str], responses: &[&str]) -> Result<Policy> {
    Ok(Policy {
        description: String::new(),
        action: "accept".to_owned(),
        methods: vec!["mab".to_owned()],
        fallback: false,
        rules: rules
            .iter()
            .map(|rule| rule.parse())
            .collect::<std::result::Result<_, _>>()?,
        responses: responses
            .iter()
            .map(|response| response.parse())
            .collect::<std::result::Result<_, _>>()?,
    })
}

#[tokio::test]
async fn sites_are_edited() -> Result {
    let database = small().await?;
    let store = &database.store;
    let settings = sites::Settings {
        timezone: Some("Europe/London".to_owned()),
        ..Default::default()
    };
    let (tag, edited) = sites::add(store, dictionary(), "Hull, Dock 7", None, &settings).await?;
    assert_eq!((tag.as_str(), edited.outcome), ("hull-dock-7", Outcome::Added));
    assert_eq!(edited.revision, store.revision().await?);
    let list = sites::list(store).await?;
    let tags: Vec<&str> = list.iter().map(|site| site.tag.as_str()).collect();
    assert_eq!(tags, ["hull-dock-7", "leeds", "york"]);
    assert_eq!((list[1].policies, list[1].clients, list[1].macs), (3, 1, 1));
    let shown = sites::show(store, "leeds").await?;
    assert_eq!(shown.policies.len(), 3);
    assert_eq!(shown.sites["leeds"].fallback.as_deref(), Some("Leeds fallback"));

    let none = sites::Settings::default();
    assert!(refused(sites::add(store, dictionary(), "x", Some("york"), &none).await).contains("a site `york` already"));
    assert!(
        refused(sites::add(store, dictionary(), "York", Some("york2"), &none).await)
            .contains("site `york` has the name")
    );
    let zone = sites::Settings {
        timezone: Some("Nowhere".to_owned()),
        ..Default::default()
    };
    assert!(refused(sites::add(store, dictionary(), "x", None, &zone).await).contains("no time zone"));
    assert!(refused(sites::show(store, "leed").await).contains("perhaps `leeds`"));
    assert!(refused(sites::remove(store, "nowhere").await).contains("`portreeve site list` shows all"));

    let change = |fallback: &str| sites::Settings {
        fallback: Some(fallback.to_owned()),
        ..Default::default()
    };
    assert_eq!(
        outcome(sites::change(store, dictionary(), "york", &change("Leeds fallback")).await)?,
        Outcome::Changed
    );
    assert_eq!(
        outcome(sites::change(store, dictionary(), "york", &change("Leeds fallback")).await)?,
        Outcome::Unchanged
    );
    assert!(
        refused(sites::change(store, dictionary(), "york", &change("laptops")).await).contains("is no fallback policy")
    );
    assert_eq!(
        sites::show(store, "york").await?.sites["york"].fallback.as_deref(),
        Some("Leeds fallback")
    );
    assert_eq!(
        outcome(sites::change(store, dictionary(), "york", &change("")).await)?,
        Outcome::Changed
    );
    assert_eq!(outcome(sites::remove(store, "york").await)?, Outcome::Removed);
    assert_eq!(clients::list(store, None).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn clients_are_edited() -> Result {
    let database = small().await?;
    let store = &database.store;
    let key = |text: &str| clients::key(text, false);
    let secret = |secret: &str| clients::Settings {
        secret: Some(secret.to_owned()),
        ..Default::default()
    };
    assert_eq!(
        outcome(clients::add(store, "leeds", key("192.0.2.7")?, &secret("x")).await)?,
        Outcome::Added
    );
    assert_eq!(
        outcome(clients::add(store, "leeds", key("192.0.2.7")?, &secret("x")).await)?,
        Outcome::Unchanged
    );
    let settings = clients::Settings {
        fragment_size: Some(1400),
        mab_password: Some("any".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        outcome(clients::add(store, "leeds", key("192.0.2.7/32")?, &settings).await)?,
        Outcome::Changed
    );
    let shown = clients::show(store, key("192.0.2.7")?).await?;
    assert_eq!(
        (
            shown.site.as_str(),
            shown.client.secret.as_str(),
            shown.client.fragment_size
        ),
        ("leeds", "x", Some(1400))
    );
    // Asked for an address, the client that answers for it is shown.
    assert_eq!(
        clients::show(store, key("10.2.3.4")?).await?.key.to_string(),
        "10.2.0.0/16"
    );
    let listed: Vec<String> = clients::list(store, Some("leeds"))
        .await?
        .iter()
        .map(|entry| entry.key.to_string())
        .collect();
    assert_eq!(listed, ["10.1.0.0/16", "192.0.2.7/32"]);

    assert!(
        refused(clients::add(store, "york", key("192.0.2.7")?, &secret("x")).await)
            .contains("site `leeds` has the client `192.0.2.7/32` already")
    );
    assert!(refused(clients::add(store, "leeds", key("192.0.2.8")?, &settings).await).contains("has no secret"));
    assert!(refused(clients::add(store, "leeds", key("192.0.2.8")?, &secret("")).await).contains("secret is empty"));
    let wrong = clients::Settings {
        fragment_size: Some(5),
        ..secret("x")
    };
    assert!(refused(clients::add(store, "leeds", key("192.0.2.8")?, &wrong).await).contains("64 to 4000"));
    assert!(refused(clients::key("10.1.2.3/16", false)).contains("write `10.1.0.0/16`"));
    assert!(refused(clients::key("switch-7", false)).contains("is no network"));
    assert!(
        refused(clients::show(store, clients::key("192.0.2.7", true)?).await)
            .contains("there is no client `192.0.2.7/32 (radsec)`")
    );
    assert_eq!(
        outcome(clients::remove(store, key("192.0.2.7")?).await)?,
        Outcome::Removed
    );
    assert!(refused(clients::remove(store, key("192.0.2.7")?).await).contains("there is no client"));
    assert!(!format!("{settings:?} {shown:?}").contains("any"));
    Ok(())
}

#[tokio::test]
async fn policies_are_edited() -> Result {
    let database = small().await?;
    let store = &database.store;
    let phones = policy(&["User-Name starts-with 00-1b-78"], &["Filter-Id = phones"])?;
    assert_eq!(
        outcome(policies::add(store, dictionary(), "phones", &phones, false).await)?,
        Outcome::Added
    );
    assert!(
        refused(policies::add(store, dictionary(), "phones", &phones, false).await).contains("`--replace` changes it")
    );
    assert_eq!(
        outcome(policies::add(store, dictionary(), "phones", &phones, true).await)?,
        Outcome::Unchanged
    );
    let broken = policy(&["Nope == 1", "User-Name =~ ("], &[])?;
    let errors = refused(policies::add(store, dictionary(), "phones", &broken, true).await);
    assert!(errors.contains("rule 1") && errors.contains("rule 2"), "{errors}");
    let empty = policies::add(store, dictionary(), "empty", &policy(&[], &[])?, false).await?;
    assert!(!empty.findings.is_empty());

    let place =
        |policy: &'static str, priority: Option<i64>| policies::place(store, dictionary(), "leeds", policy, priority);
    assert_eq!(outcome(place("phones", Some(10)).await)?, Outcome::Added);
    let order = async || -> Result<Vec<(i64, String)>> {
        Ok(sites::show(store, "leeds").await?.sites["leeds"]
            .policies
            .clone()
            .into_iter()
            .collect())
    };
    let expected = |order: &[(i64, &str)]| {
        order
            .iter()
            .map(|(at, name)| (*at, (*name).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        order().await?,
        expected(&[(10, "phones"), (11, "laptops"), (20, "printers")])
    );
    assert_eq!(outcome(place("printers", Some(10)).await)?, Outcome::Changed);
    assert_eq!(
        order().await?,
        expected(&[(10, "printers"), (11, "phones"), (12, "laptops")])
    );
    assert_eq!(outcome(place("printers", Some(10)).await)?, Outcome::Unchanged);
    assert!(refused(place("Leeds fallback", Some(1)).await).contains("has no priority"));
    assert!(refused(place("empty", None).await).contains("needs a priority"));
    assert!(refused(place("nope", Some(1)).await).contains("there is no policy `nope`"));
    assert_eq!(outcome(place("York fallback", None).await)?, Outcome::Changed);
    assert_eq!(
        sites::show(store, "leeds").await?.sites["leeds"].fallback.as_deref(),
        Some("York fallback")
    );

    let (shown, places) = policies::show(store, "phones").await?;
    assert_eq!(shown, phones);
    assert_eq!(
        places,
        [policies::Place {
            site: "leeds".to_owned(),
            priority: Some(11)
        }]
    );
    assert!(refused(policies::remove(store, "phones").await).contains("site `leeds`"));
    assert_eq!(
        outcome(policies::withdraw(store, "leeds", "phones").await)?,
        Outcome::Removed
    );
    assert!(refused(policies::withdraw(store, "leeds", "phones").await).contains("does not use policy"));
    assert_eq!(outcome(policies::remove(store, "phones").await)?, Outcome::Removed);
    let list = policies::list(store).await?;
    let laptops = list
        .iter()
        .find(|policy| policy.name == "laptops")
        .ok_or("no laptops")?;
    assert_eq!((laptops.rules, laptops.responses, laptops.sites), (1, 1, 2));

    // A policy that is broken by plain SQL is not put into a site.
    database
        .plain()
        .await?
        .run("UPDATE rules SET request_attribute = 'Nope' WHERE id = 3")
        .await?;
    assert!(refused(place("unused", Some(50)).await).contains("`Nope` is in no dictionary"));
    assert_eq!(order().await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn macs_are_edited() -> Result {
    let database = small().await?;
    let store = &database.store;
    let printer = mac("0011.2233.4455")?;
    let settings = macs::Settings {
        name: Some("lobby".to_owned()),
        valid_until: Some("2027-01-31T12:00:00Z".to_owned()),
        responses: Some(vec!["Filter-Id = x".parse()?]),
        ..Default::default()
    };
    assert_eq!(
        outcome(macs::add(store, dictionary(), "leeds", printer, &settings).await)?,
        Outcome::Added
    );
    // As the hint of `mac-expired` says: adding it again extends it.
    let extended = macs::Settings {
        valid_until: Some("2028-01-31".to_owned()),
        ..Default::default()
    };
    assert_eq!(
        outcome(macs::add(store, dictionary(), "leeds", printer, &extended).await)?,
        Outcome::Changed
    );
    assert_eq!(
        outcome(macs::add(store, dictionary(), "leeds", printer, &extended).await)?,
        Outcome::Unchanged
    );
    let shown = macs::show(store, "leeds", printer).await?;
    assert_eq!((shown.name.as_str(), shown.responses.len()), ("lobby", 1));
    assert_eq!(
        shown.valid_until.map(portreeve::store::time::display).as_deref(),
        Some("2028-01-31T23:59:59Z")
    );

    let wrong = macs::Settings {
        valid_until: Some("tomorrow".to_owned()),
        ..Default::default()
    };
    assert!(refused(macs::add(store, dictionary(), "leeds", printer, &wrong).await).contains("is no time"));
    let wrong = macs::Settings {
        responses: Some(vec!["Nope = x".parse()?]),
        ..Default::default()
    };
    assert!(refused(macs::add(store, dictionary(), "leeds", printer, &wrong).await).contains("in no dictionary"));
    assert!(refused(macs::remove(store, "york", printer).await).contains("it is listed for `leeds`"));
    assert!(
        refused(macs::show(store, "york", mac("000000000000")?).await)
            .contains("portreeve mac add york 00-00-00-00-00-00")
    );

    assert_eq!(
        outcome(macs::move_to(store, printer, "leeds", "york").await)?,
        Outcome::Changed
    );
    let found = macs::find(store, printer).await?;
    assert_eq!(
        (found.len(), found[0].site.as_str(), found[0].mac.responses.len()),
        (1, "york", 1)
    );
    macs::add(store, dictionary(), "leeds", printer, &macs::Settings::default()).await?;
    assert!(
        refused(macs::move_to(store, printer, "leeds", "york").await)
            .contains("site `york` lists 00-11-22-33-44-55 already")
    );
    assert_eq!(macs::find(store, printer).await?.len(), 2);
    // Plain SQL's spelling is the same address.
    assert_eq!(macs::find(store, mac("020000000002")?).await?.len(), 1);
    assert_eq!(
        outcome(macs::remove(store, "york", mac("02-00-00-00-00-02")?).await)?,
        Outcome::Removed
    );
    assert_eq!(macs::list(store, None).await?.len(), 3);
    assert_eq!(macs::list(store, Some("york")).await?.len(), 1);
    Ok(())
}

/// Two edits at once: the second waits, and sees what the first did.
#[tokio::test(flavor = "multi_thread")]
async fn edits_do_not_lose_each_other() -> Result {
    let database = small().await?;
    let tasks: Vec<_> = (0..20u64)
        .map(|number| {
            let store = database.store.clone();
            tokio::spawn(async move {
                let address = MacAddress::from_u64(number);
                macs::add(&store, dictionary(), "leeds", address, &macs::Settings::default())
                    .await
                    .map(|edited| edited.revision.number)
            })
        })
        .collect();
    let mut revisions = Vec::new();
    for task in tasks {
        revisions.push(task.await??);
    }
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 20);
    assert_eq!(macs::list(&database.store, Some("leeds")).await?.len(), 21);
    Ok(())
}
