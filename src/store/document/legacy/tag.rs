//! The tags of sites that have none. Early versions of the older system kept a tag with each client; later ones made the
//! site's of its name. Either way it was what rules see as `Client-Shortname`.

use std::collections::HashMap;

use super::collect::Entry;
use super::rows::{Client, Site};

/// Gives each site without a tag the one that all its clients have, or one made of its name; a line on how many.
pub(super) fn fill(sites: &mut [Entry<Site>], clients: &[Entry<Client>]) -> Option<String> {
    let mut tags: HashMap<i64, Option<&str>> = HashMap::new();
    for Entry { value: client, .. } in clients {
        let tag = client.tag.as_deref();
        tags.entry(client.site)
            .and_modify(|known| *known = known.filter(|known| tag == Some(known)))
            .or_insert(tag);
    }
    let (mut of_clients, mut of_names) = (0_usize, 0_usize);
    for Entry { value: site, .. } in sites.iter_mut().filter(|entry| entry.value.tag.is_none()) {
        match tags.get(&site.id).copied().flatten() {
            Some(tag) => {
                site.tag = Some(tag.to_owned());
                of_clients += 1;
            }
            None => {
                site.tag = Some(parameterized(&site.name)).filter(|tag| !tag.is_empty());
                of_names += 1;
            }
        }
    }
    match (of_clients, of_names) {
        (0, 0) => None,
        _ => Some(format!(
            "sites without a tag: {of_clients} have their clients' now, {of_names} one made of their name"
        )),
    }
}

/// A tag as Rails makes it: `Leeds, Wharf 2` is `leeds_wharf_2`.
fn parameterized(name: &str) -> String {
    let mut tag = String::new();
    for c in name.chars() {
        match c {
            '-' => tag.push('-'),
            c if c.is_alphanumeric() => tag.extend(c.to_lowercase()),
            _ if !tag.is_empty() && !tag.ends_with('_') => tag.push('_'),
            _ => {}
        }
    }
    tag.trim_end_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_made_as_there() {
        for (name, tag) in [
            ("Leeds, Wharf 2", "leeds_wharf_2"),
            ("  HQ -- North_Wing ", "hq_--_north_wing"),
            ("site", "site"),
            ("...", ""),
        ] {
            assert_eq!(parameterized(name), tag, "{name}");
        }
    }
}
