//! Policies: rules over facts, and the decision they make.
