//! Parts that a build may leave out, because they cost much of its time, and the line that says so.

/// A part that a cargo feature stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The stack quinn.
    Quinn,
    /// The stack s2n.
    S2n,
    /// Tables as Parquet files.
    Parquet,
    /// qlog files, of the lab and of real connections.
    Qlog,
}

impl Part {
    /// Checks that this build has it, before anything runs.
    ///
    /// # Errors
    /// It was left out: how to build it.
    pub fn check(self) -> Result<(), NotBuilt> {
        if self.is_built() { Ok(()) } else { Err(NotBuilt(self)) }
    }

    /// True if this build has it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Quinn => cfg!(feature = "quinn"),
            Self::S2n => cfg!(feature = "s2n"),
            Self::Parquet => cfg!(feature = "parquet"),
            Self::Qlog => cfg!(feature = "qlog"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Quinn => "stack quinn",
            Self::S2n => "stack s2n",
            Self::Parquet => "feature parquet",
            Self::Qlog => "feature qlog",
        }
    }
}

/// A part that this build is without: one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "this build has no {}: build it with all of them, cargo install --path crates/cli --features {FEATURES}",
    .0.name()
)]
pub struct NotBuilt(pub(crate) Part);

/// Whoever has the kernel's program keeps it.
const FEATURES: &str = if cfg!(feature = "kernel") { "full,kernel" } else { "full" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_this_build_is_one_line_with_the_way_to_build_it() {
        for (part, says) in [
            (Part::Quinn, "this build has no stack quinn: build it with all of them, "),
            (Part::S2n, "this build has no stack s2n: build it with all of them, "),
            (Part::Parquet, "this build has no feature parquet: build it with all of them, "),
            (Part::Qlog, "this build has no feature qlog: build it with all of them, "),
        ] {
            let line = NotBuilt(part).to_string();
            let how = line.strip_prefix(says).expect(&line);
            assert!(how.starts_with("cargo install --path crates/cli --features full"), "{line}");
            assert_eq!(part.check().is_ok(), part.is_built());
        }
    }
}
