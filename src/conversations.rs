//! EAP conversations in progress, by State.
