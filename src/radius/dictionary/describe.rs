//! An attribute in words, for `portreeve dict` and for hints.
