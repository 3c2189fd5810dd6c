//! MD5 (RFC 1321) of several messages at once.
//!
//! Each of MD5's 64 steps waits for the one before, and a processor has nothing else to do meanwhile: three messages that
//! have nothing to do with each other take hardly longer than one. Where several requests have come, a node checks and signs
//! three at a time.

use std::array::from_fn;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Messages in one go. With more there are more words at work than a processor has registers for.
pub const AT_ONCE: usize = 3;

/// Octets of a block.
pub const BLOCK_OCTETS: usize = 64;

/// The words A, B, C and D of RFC 1321 section 3.3: what is known of the blocks so far.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct State([u32; 4]);

impl State {
    /// Before the first block.
    const FIRST: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

    /// After this block.
    pub fn after(block: &[u8; BLOCK_OCTETS]) -> State {
        let [state] = compressed([State::FIRST], [block]);
        State(state)
    }
}

/// A message: perhaps one block that was digested before, then octets in pieces, one behind the other.
pub struct Message<'m> {
    state: &'m [u32; 4],
    pieces: Pieces<'m>,
    /// The next octet's piece.
    piece: usize,
    /// Octets so far, of the block digested before too.
    octets: u64,
    end: End,
    /// Whether what is copied of it is to be wiped.
    is_secret: bool,
}

/// The octets of a message, one behind the other; those that are not needed are empty.
pub type Pieces<'m> = [&'m [u8]; PIECES];

const PIECES: usize = 5;

/// How far a message's end is written (RFC 1321 sections 3.1 and 3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// There may be octets left.
    Open,
    /// The bit behind the last octet is written.
    Marked,
    /// The length is written.
    Whole,
}

impl<'m> Message<'m> {
    /// A message of these pieces.
    pub fn new(pieces: Pieces<'m>) -> Message<'m> {
        Message {
            state: &State::FIRST,
            pieces,
            piece: 0,
            octets: 0,
            end: End::Open,
            is_secret: false,
        }
    }

    /// A message of the block that led to `state`, and these pieces.
    pub fn behind(state: &'m State, pieces: Pieces<'m>) -> Message<'m> {
        Message {
            state: &state.0,
            octets: BLOCK_OCTETS as u64,
            ..Message::new(pieces)
        }
    }

    /// The same, of pieces that nobody may know.
    pub fn secret(self) -> Message<'m> {
        Message {
            is_secret: true,
            ..self
        }
    }

    /// Writes the next block; returns whether there was one.
    fn next_block(&mut self, block: &mut [u8; BLOCK_OCTETS]) -> bool {
        if self.end == End::Whole {
            return false;
        }
        let mut used = 0;
        while used < BLOCK_OCTETS
            && let Some(piece) = self.pieces.get_mut(self.piece)
        {
            let whole: &'m [u8] = piece;
            let octets = whole.len().min(BLOCK_OCTETS - used);
            let (now, later) = whole.split_at_checked(octets).unwrap_or_default();
            if let Some(place) = block.get_mut(used..used + octets) {
                place.copy_from_slice(now);
            }
            *piece = later;
            self.piece += usize::from(later.is_empty());
            used += octets;
        }
        self.octets += used as u64;
        if let Some(place) = block.get_mut(used..).filter(|place| !place.is_empty()) {
            place.fill(0);
            if let (End::Open, Some(mark)) = (self.end, place.first_mut()) {
                *mark = 0x80;
                self.end = End::Marked;
                used += 1;
            }
            const LENGTH_OCTETS: usize = size_of::<u64>();
            if used + LENGTH_OCTETS <= BLOCK_OCTETS
                && let Some(length) = place.last_chunk_mut::<LENGTH_OCTETS>()
            {
                *length = (self.octets * 8).to_le_bytes();
                self.end = End::Whole;
            }
        }
        true
    }
}

/// The digests of these messages, each in its place; sixteen zeros where there is none.
pub fn digests(mut messages: [Option<Message<'_>>; AT_ONCE]) -> [[u8; 16]; AT_ONCE] {
    // what was digested of a secret so far is as good as the secret
    let mut states = Zeroizing::new(
        messages
            .each_ref()
            .map(|message| message.as_ref().map_or([0; 4], |message| *message.state)),
    );
    let mut blocks = [[0; BLOCK_OCTETS]; AT_ONCE];
    loop {
        let mut go_on = [false; AT_ONCE];
        for ((message, block), goes_on) in messages.iter_mut().zip(&mut blocks).zip(&mut go_on) {
            *goes_on = message.as_mut().is_some_and(|message| message.next_block(block));
        }
        let mut lanes = states
            .iter_mut()
            .zip(&blocks)
            .zip(go_on)
            .filter(|(_, goes_on)| *goes_on);
        match (lanes.next(), lanes.next()) {
            (None, _) => break,
            (Some(((state, block), _)), None) => [*state] = compressed([*state], [block]),
            (Some(_), Some(_)) => {
                let next = compressed(*states, blocks.each_ref());
                for ((state, next), goes_on) in states.iter_mut().zip(next).zip(go_on) {
                    if goes_on {
                        *state = next;
                    }
                }
            }
        }
    }
    if messages.iter().flatten().any(|message| message.is_secret) {
        blocks.zeroize();
    }
    states.map(octets)
}

fn octets(state: [u32; 4]) -> [u8; 16] {
    let mut octets = [0; 16];
    for (place, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_le_bytes();
    }
    octets
}

/// RFC 1321 section 3.4: by how much each of a round's four steps rotates.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// RFC 1321 section 3.4: "T\[i\], is equal to the integer part of 4294967296 times abs(sin(i)), where i is in radians."
const SINES: [[u32; 4]; 16] = [
    [0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee],
    [0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501],
    [0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be],
    [0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821],
    [0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa],
    [0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8],
    [0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed],
    [0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a],
    [0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c],
    [0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70],
    [0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05],
    [0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665],
    [0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039],
    [0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1],
    [0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1],
    [0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391],
];

/// The states after one more block each: the 64 steps of RFC 1321 section 3.4, each for all messages before the next.
///
/// A function by itself: among other code the words at work do not stay in registers, and it takes twice as long.
#[inline(never)]
#[expect(clippy::indexing_slicing, reason = "every index is a constant within its array")]
fn compressed<const LANES: usize>(
    states: [[u32; 4]; LANES],
    blocks: [&[u8; BLOCK_OCTETS]; LANES],
) -> [[u32; 4]; LANES] {
    let [mut a, mut b, mut c, mut d]: [[u32; LANES]; 4] = from_fn(|word| states.map(|state| state[word]));
    /// One of 64: `$round` and `$step` count from 0, and the word of the block is the number `$times * $step + $plus`.
    macro_rules! step {
        ($round:literal, $times:literal, $plus:literal, $step:expr, $a:ident $b:ident $c:ident $d:ident) => {
            for lane in 0..LANES {
                let at = 4 * (($times * $step + $plus) % 16);
                let word = [
                    blocks[lane][at],
                    blocks[lane][at + 1],
                    blocks[lane][at + 2],
                    blocks[lane][at + 3],
                ];
                let (x, y, z) = ($b[lane], $c[lane], $d[lane]);
                let sum = $a[lane]
                    .wrapping_add(u32::from_le_bytes(word))
                    .wrapping_add(SINES.as_flattened()[16 * $round + $step]);
                let sum = match $round {
                    // F and G; with `z ^ (x & (y ^ z))` for "XY v not(X) Z" there is one operation less to wait for
                    0 => sum.wrapping_add(z ^ (x & (y ^ z))),
                    1 => sum.wrapping_add(!z & y).wrapping_add(z & x),
                    2 => sum.wrapping_add(x ^ y ^ z),
                    _ => sum.wrapping_add(y ^ (x | !z)),
                };
                $a[lane] = sum.rotate_left(ROTATIONS[$round][$step % 4]).wrapping_add(x);
            }
        };
    }
    macro_rules! round {
        ($round:literal, $times:literal, $plus:literal) => {
            round!($round, $times, $plus, 0);
            round!($round, $times, $plus, 4);
            round!($round, $times, $plus, 8);
            round!($round, $times, $plus, 12);
        };
        ($round:literal, $times:literal, $plus:literal, $step:literal) => {
            step!($round, $times, $plus, $step, a b c d);
            step!($round, $times, $plus, $step + 1, d a b c);
            step!($round, $times, $plus, $step + 2, c d a b);
            step!($round, $times, $plus, $step + 3, b c d a);
        };
    }
    round!(0, 1, 0);
    round!(1, 5, 1);
    round!(2, 3, 5);
    round!(3, 7, 0);
    from_fn(|lane| {
        let [first, second, third, fourth] = states[lane];
        [
            first.wrapping_add(a[lane]),
            second.wrapping_add(b[lane]),
            third.wrapping_add(c[lane]),
            fourth.wrapping_add(d[lane]),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(octets: &[u8]) -> [u8; 16] {
        let [digest, ..] = digests([Some(Message::new([octets, &[], &[], &[], &[]])), None, None]);
        digest
    }

    #[test]
    fn the_digests_are_those_of_rfc_1321() {
        // RFC 1321 appendix A.5, "MD5 test suite"
        for (message, digest) in [
            ("", 0xd41d8cd98f00b204e9800998ecf8427e_u128),
            ("a", 0x0cc175b9c0f1b6a831c399e269772661),
            ("abc", 0x900150983cd24fb0d6963f7d28e17f72),
            ("message digest", 0xf96b697d7cb7938d525a2f31aaf161d0),
            ("abcdefghijklmnopqrstuvwxyz", 0xc3fcd3d76192e4007dfb496cca67e13b),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                0xd174ab98d277d9f5a5611c2c9f419d9f,
            ),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                0x57edf4a22be3c955ac49da2e2107b67a,
            ),
        ] {
            assert_eq!(one(message.as_bytes()), digest.to_be_bytes(), "{message}");
        }
    }

    #[test]
    fn the_constants_are_what_the_rfc_says_they_are() {
        for (index, constant) in SINES.as_flattened().iter().enumerate() {
            let sine = (index as f64 + 1.0).sin().abs();
            assert_eq!(*constant, (4_294_967_296.0 * sine) as u32, "{index}");
        }
    }

    #[test]
    fn every_length_ends_as_it_should() {
        let octets: Vec<u8> = (0..=200).collect();
        for length in 0..octets.len() {
            assert_eq!(one(&octets[..length]), oracle(&octets[..length]), "{length}");
        }
    }

    fn oracle(octets: &[u8]) -> [u8; 16] {
        use md5::{Digest, Md5};
        Md5::digest(octets).into()
    }

    proptest! {
        /// Of any lengths, beside each other, in any pieces: as another implementation has them one by one.
        #[test]
        fn each_is_as_if_it_were_alone(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), AT_ONCE),
            cuts in proptest::collection::vec(0usize..300, PIECES - 1),
            missing in 0..=AT_ONCE,
        ) {
            let in_pieces = |octets| {
                let mut rest: &[u8] = octets;
                let mut pieces = [&rest[..0]; PIECES];
                for (piece, cut) in pieces.iter_mut().zip(&cuts) {
                    (*piece, rest) = rest.split_at((*cut).min(rest.len()));
                }
                pieces[PIECES - 1] = rest;
                pieces
            };
            let found = digests(from_fn(|lane| (lane != missing).then(|| Message::new(in_pieces(&messages[lane])))));
            for lane in (0..AT_ONCE).filter(|lane| *lane != missing) {
                prop_assert_eq!(found[lane], oracle(&messages[lane]));
            }
        }

        #[test]
        fn a_block_that_was_digested_before_counts(block: [u8; 32], octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let first = [block, block].concat().try_into().unwrap();
            let state = State::after(&first);
            let message = Message::behind(&state, [&octets, &[], &[], &[], &[]]);
            let [digest, ..] = digests([Some(message), None, None]);
            prop_assert_eq!(digest, oracle(&[&first[..], &octets].concat()));
        }
    }
}
