//! The stack that carries the flows of a run, its clock and its link: the options `--stack`,
//! `--clock` and `--link`, and the fields `stack`, `clock` and `real_link` of a file. (The field
//! `link` of a file is a part of its path.)

use std::fmt;
use std::str::FromStr;

/// Makes a choice of named things: the names, `Display`, `FromStr` with its error, and serde's.
macro_rules! names {
    ($type:ident, $unknown:ident, $what:literal, [$($variant:ident => $name:literal),+ $(,)?]) => {
        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name that [`FromStr`] takes.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        #[doc = concat!("A name that no ", $what, " has.")]
        #[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
        #[error(
            "unknown {} '{}'; there are {}{}",
            $what, .0, [$($name),+].join(", "), has_become($what, .0)
        )]
        pub struct $unknown(String);

        impl FromStr for $type {
            type Err = $unknown;

            fn from_str(name: &str) -> Result<Self, $unknown> {
                let found = Self::ALL.iter().find(|one| one.name() == name);
                found.copied().ok_or_else(|| $unknown(name.escape_debug().to_string()))
            }
        }
    };
}

/// The transport whose packets cross the path.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Stack {
    /// The simulator's own ends, QUIC's or TCP's.
    #[default]
    Sim,
    /// QUIC by noq.
    Noq,
    /// QUIC by quinn.
    Quinn,
    /// QUIC by s2n-quic.
    S2n,
    /// This project's TCP in user space.
    Tcp,
    /// The kernel's TCP.
    Linux,
}

names!(Stack, UnknownStack, "stack", [
    Sim => "sim",
    Noq => "noq",
    Quinn => "quinn",
    S2n => "s2n",
    Tcp => "tcp",
    Linux => "linux",
]);

impl Stack {
    /// The clock that it has where none is named: the virtual one, if it has that.
    pub const fn usual_clock(self) -> Clock {
        match self {
            Self::S2n | Self::Linux => Clock::Real,
            Self::Sim | Self::Noq | Self::Quinn | Self::Tcp => Clock::Virtual,
        }
    }
}

/// The clock by which the packets of a run move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// That of the next event: a run takes as long as its work.
    Virtual,
    /// The machine's.
    Real,
}

names!(Clock, UnknownClock, "clock", [Virtual => "virtual", Real => "real"]);

/// The link between the ends in real time: the path model in one of two places, or the kernel's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkKind {
    /// UDP inside this process, over loopback. Needs nothing.
    Udp,
    /// TUN devices between two network namespaces that the run makes. Needs Linux and root.
    Tun,
    /// The kernel's netem between two such namespaces, for the kernel's TCP. Needs a kernel that
    /// has it, and root.
    Netem,
}

names!(LinkKind, UnknownLink, "link", [Udp => "udp", Tun => "tun", Netem => "netem"]);

/// Stack, clock and link of runs, as far as options or a file name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Over {
    /// The stack; the simulator's where none is named.
    pub stack: Option<Stack>,
    /// The clock; by default [`Stack::usual_clock`].
    pub clock: Option<Clock>,
    /// The link in real time; by default the usual one of the stack.
    pub link: Option<LinkKind>,
}

impl Over {
    /// A stack with its usual clock and link.
    pub const fn of(stack: Stack) -> Self {
        Self { stack: Some(stack), clock: None, link: None }
    }

    /// A stack in real time, with its usual link.
    pub const fn in_real_time(stack: Stack) -> Self {
        Self { stack: Some(stack), clock: Some(Clock::Real), link: None }
    }

    /// The stack.
    pub fn stack(&self) -> Stack {
        self.stack.unwrap_or_default()
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock.unwrap_or(self.stack().usual_clock())
    }

    /// The same, with what they leave out as in `file`. Clock and link of a file are those of its
    /// stack, and of no other one.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        if self.stack.is_some() && file.stack.is_some() && self.stack != file.stack {
            return self;
        }
        let both = Self {
            stack: self.stack.or(file.stack),
            clock: self.clock.or(file.clock),
            link: self.link,
        };
        // The link of a file counts in real time alone.
        let link = file.link.filter(|_| both.clock() == Clock::Real);
        Self { link: self.link.or(link), ..both }
    }

    /// The options that name this.
    pub fn options(&self) -> String {
        let Self { stack, clock, link } = self;
        let mut text = format!("--stack {}", stack.unwrap_or_default());
        if let Some(clock) = clock {
            text.push_str(&format!(" --clock {clock}"));
        }
        if let Some(link) = link {
            text.push_str(&format!(" --link {link}"));
        }
        text
    }

    /// The fields of a file that name this; none for the usual one.
    pub fn fields(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            ("stack", self.stack.map(Stack::name)),
            ("clock", self.clock.map(Clock::name)),
            ("real_link", self.link.map(LinkKind::name)),
        ];
        all.into_iter().filter_map(|(field, name)| Some((field, name?))).collect()
    }
}

/// The hint at what a former name of a backend is called now, where a stack is to be named.
fn has_become(what: &str, name: &str) -> String {
    let over = of_former_backend(name).filter(|_| what == "stack");
    over.map_or_else(String::new, |over| format!("; it has become {}", over.options()))
}

/// The options that name what a former name of a backend named; `None` for a name that none had.
pub fn of_former_backend(name: &str) -> Option<Over> {
    Some(match name {
        "sim" => Over::of(Stack::Sim),
        "quic" => Over::in_real_time(Stack::Noq),
        "quic:noq" => Over::of(Stack::Noq),
        "quic:quinn" => Over::in_real_time(Stack::Quinn),
        "quic:quinn-virtual" => Over::of(Stack::Quinn),
        "quic:s2n" => Over::of(Stack::S2n),
        "tcp" => Over::of(Stack::Linux),
        "tcp:user" => Over::of(Stack::Tcp),
        "tcp:user-tun" => Over::in_real_time(Stack::Tcp),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_before_the_file_and_clock_and_link_stay_with_their_stack() {
        let over = |stack, clock, link| Over { stack, clock, link };
        let file = over(Some(Stack::Noq), Some(Clock::Real), Some(LinkKind::Tun));
        assert_eq!(Over::default().or(file), file);
        assert_eq!(Over::of(Stack::Noq).or(file), file);
        assert_eq!(Over::of(Stack::Sim).or(file), Over::of(Stack::Sim));
        let now_virtual = over(None, Some(Clock::Virtual), None);
        assert_eq!(now_virtual.or(file), over(Some(Stack::Noq), Some(Clock::Virtual), None));
        let link_alone = over(Some(Stack::Noq), None, Some(LinkKind::Tun));
        assert_eq!(Over::default().or(link_alone).link, None);
        let in_real_time = over(None, Some(Clock::Real), None);
        assert_eq!(in_real_time.or(link_alone).link, Some(LinkKind::Tun));
        let clock_alone = over(None, Some(Clock::Real), None);
        assert_eq!(Over::of(Stack::Noq).or(clock_alone), Over::in_real_time(Stack::Noq));
        let other_link = over(None, None, Some(LinkKind::Udp));
        assert_eq!(other_link.or(file).link, Some(LinkKind::Udp));
        assert_eq!(Over::default().or(Over::default()).stack(), Stack::Sim);
    }

    #[test]
    fn a_stack_of_a_former_name_is_refused_with_what_it_has_become() {
        let says = |name: &str| name.parse::<Stack>().expect_err(name).to_string();
        assert!(
            says("quic:noq").ends_with("linux; it has become --stack noq"),
            "{}",
            says("quic:noq")
        );
        assert!(says("tcp:user-tun").ends_with("it has become --stack tcp --clock real"));
        assert!(says("udp").ends_with("tcp, linux"));
        let link = "quic".parse::<LinkKind>().expect_err("a link").to_string();
        assert!(link.ends_with("udp, tun, netem"), "{link}");
    }

    #[test]
    fn fields_and_options_name_no_more_than_was_named() {
        assert_eq!(Over::default().fields(), []);
        let real = Over::in_real_time(Stack::Tcp).fields();
        assert_eq!(real, [("stack", "tcp"), ("clock", "real")]);
        assert_eq!(Over::of(Stack::S2n).options(), "--stack s2n");
        assert_eq!(Over::of(Stack::S2n).clock(), Clock::Real);
    }
}
