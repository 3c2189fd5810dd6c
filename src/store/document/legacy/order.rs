//! The order in which the older system tries a site's policies, as priorities that no two of them share.
//!
//! It sorts by priority as MySQL does: NULL first, equal ones in the order of their rows. Ours has no NULL there and no equal
//! ones, so a site that has some is numbered anew.

/// Between two priorities, so that a policy can be put between them later.
const STEP: i64 = 10;

/// What a site's policies get.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ordered<T> {
    /// With their priorities, ascending.
    pub(super) links: Vec<(i64, T)>,
    /// Whether they have other priorities now.
    pub(super) is_renumbered: bool,
}

/// Orders links, of which `row` gives the priority and the place of the row.
pub(super) fn order<K: Ord, T>(mut links: Vec<T>, row: impl Fn(&T) -> (Option<i64>, K)) -> Ordered<T> {
    links.sort_by_key(&row);
    let priorities: Vec<Option<i64>> = links.iter().map(|link| row(link).0).collect();
    let is_equal = |pair: &[Option<i64>]| matches!(pair, [a, b] if a == b);
    let is_renumbered = priorities.contains(&None) || priorities.windows(2).any(is_equal);
    let links = (1_i64..)
        .zip(priorities)
        .map(|(at, priority)| priority.filter(|_| !is_renumbered).unwrap_or(at.saturating_mul(STEP)))
        .zip(links)
        .collect();
    Ordered { links, is_renumbered }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(links: &[(Option<i64>, u8, char)]) -> Ordered<char> {
        let Ordered { links, is_renumbered } = order(links.to_vec(), |(priority, row, _)| (*priority, *row));
        Ordered {
            links: links
                .into_iter()
                .map(|(priority, (_, _, link))| (priority, link))
                .collect(),
            is_renumbered,
        }
    }

    #[test]
    fn different_priorities_stay() {
        let found = ordered(&[(Some(7), 1, 'c'), (Some(-5), 2, 'a'), (Some(0), 3, 'b')]);
        assert_eq!(found.links, [(-5, 'a'), (0, 'b'), (7, 'c')]);
        assert!(!found.is_renumbered && ordered(&[]).links.is_empty());
    }

    #[test]
    fn equal_ones_and_null_are_numbered_in_the_order_of_mysql() {
        let found = ordered(&[
            (Some(1), 5, 'd'),
            (None, 4, 'b'),
            (Some(1), 2, 'c'),
            (None, 3, 'a'),
            (Some(9), 1, 'e'),
        ]);
        assert_eq!(found.links, [(10, 'a'), (20, 'b'), (30, 'c'), (40, 'd'), (50, 'e')]);
        assert!(found.is_renumbered);
        assert!(ordered(&[(Some(1), 1, 'a'), (Some(1), 2, 'b')]).is_renumbered);
        assert!(ordered(&[(None, 1, 'a')]).is_renumbered);
    }
}
