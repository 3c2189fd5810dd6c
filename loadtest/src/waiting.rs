//! The slots that wait for an answer, in the order in which they asked: the one that has waited longest is first.
//!
//! All wait equally long, so nothing has to be sorted: a slot that asks goes to the end, from wherever it was.

const NONE: u32 = u32::MAX;

/// A list through the slots.
#[derive(Debug)]
pub struct Waiting {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    before: u32,
    after: u32,
    listed: bool,
}

impl Waiting {
    pub fn new() -> Waiting {
        Waiting {
            links: Vec::new(),
            first: NONE,
            last: NONE,
        }
    }

    pub fn first(&self) -> Option<usize> {
        (self.first != NONE).then_some(self.first as usize)
    }

    /// Puts a slot at the end.
    pub fn push(&mut self, slot: usize) {
        self.remove(slot);
        let Ok(number) = u32::try_from(slot) else { return };
        let new = Link {
            before: self.last,
            after: NONE,
            listed: true,
        };
        if self.links.len() <= slot {
            let unlisted = Link { listed: false, ..new };
            self.links.resize(slot + 1, unlisted);
        }
        if let Some(link) = self.links.get_mut(slot) {
            *link = new;
        }
        match self.links.get_mut(self.last as usize) {
            Some(last) => last.after = number,
            None => self.first = number,
        }
        self.last = number;
    }

    /// Takes a slot out, if it is listed.
    pub fn remove(&mut self, slot: usize) {
        let Some(link) = self.links.get_mut(slot).filter(|link| link.listed) else {
            return;
        };
        link.listed = false;
        let Link { before, after, .. } = *link;
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_is_first() {
        let mut waiting = Waiting::new();
        let drain = |waiting: &mut Waiting| {
            std::iter::from_fn(|| {
                let first = waiting.first()?;
                waiting.remove(first);
                Some(first)
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(waiting.first(), None);
        for slot in [4, 0, 2, 7, 1] {
            waiting.push(slot);
        }
        // asks again; has its answer, twice; the last one, too; one that never asked
        waiting.push(4);
        for slot in [2, 2, 4, 5, 9] {
            waiting.remove(slot);
        }
        waiting.push(3);
        assert_eq!(drain(&mut waiting), [0, 7, 1, 3]);
        assert!(drain(&mut waiting).is_empty());
        waiting.push(0);
        waiting.push(0);
        assert_eq!(drain(&mut waiting), [0]);
    }
}
