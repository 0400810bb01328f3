//! An algorithm at work, in one size and without a table of pointers.

use crate::algorithm::Algorithm;
use crate::config::Config;
use crate::conn::Conn;
#[cfg(feature = "custom")]
use crate::custom::{Custom, CustomControl};
use crate::fixed::Fixed;
use crate::options::CubicRules;
use crate::registry::algorithms;
use crate::units::Instant;
#[cfg(feature = "custom")]
use alloc::boxed::Box;

macro_rules! define {
    (
        []
        { $($name:tt $variant:ident $constant:ident $options:ident ($type:ty))* }
        { $($feature:tt $algorithm:ident $other:ident ($other_type:ty) $rules:ident)* }
    ) => {
        #[derive(Clone, Debug)]
        // One controller lives beside each connection: an indirection for the small ones would cost
        // every ACK of the large one a cache miss.
        #[allow(clippy::large_enum_variant)]
        pub(crate) enum Algo {
            $(#[cfg(feature = $name)] $variant($type),)*
            $(#[cfg(feature = $feature)] $other($other_type),)*
            Fixed(Fixed),
            #[cfg(feature = "custom")]
            Custom(Custom),
        }

        impl Algo {
            pub(super) fn new(
                algorithm: Algorithm,
                conn: &mut Conn,
                now: Instant,
                config: &Config,
            ) -> Self {
                match algorithm {
                    $(
                        #[cfg(feature = $feature)]
                        Algorithm::$algorithm(options)
                            if options.rules(config.transport) == CubicRules::$rules =>
                        {
                            Self::$other(<$other_type>::new(conn, now, config, options))
                        }
                    )*
                    $(
                        #[cfg(feature = $name)]
                        Algorithm::$variant(options) => {
                            Self::$variant(<$type>::new(conn, now, config, options))
                        }
                    )*
                    Algorithm::Fixed(rate) => Self::Fixed(Fixed::new(conn, rate)),
                    #[cfg(feature = "custom")]
                    Algorithm::Custom(custom) => {
                        Self::Custom(Custom::new(custom, conn, now, config))
                    }
                }
            }
        }

        /// One of this crate's algorithms by itself, for a custom one that does most as it does:
        /// what it sets in the connection can be changed after each call.
        #[cfg(feature = "custom")]
        pub fn built_in(
            algorithm: Algorithm,
            conn: &mut Conn,
            now: Instant,
            config: &Config,
        ) -> Box<dyn CustomControl> {
            match Algo::new(algorithm, conn, now, config) {
                $(#[cfg(feature = $name)] Algo::$variant(built_in) => Box::new(built_in),)*
                $(#[cfg(feature = $feature)] Algo::$other(built_in) => Box::new(built_in),)*
                Algo::Fixed(built_in) => Box::new(built_in),
                Algo::Custom(custom) => custom.into_control(),
            }
        }
    };
}
algorithms!(define);

/// Runs the same call on whichever algorithm is inside.
macro_rules! each {
    ($algo:expr, $a:ident => $call:expr) => {
        $crate::registry::algorithms!(each_of, $algo, $a => $call)
    };
}

macro_rules! each_of {
    (
        [$algo:expr, $a:ident => $call:expr]
        { $($name:tt $variant:ident $constant:ident $options:ident $type:tt)* }
        { $($feature:tt $algorithm:ident $other:ident $other_type:tt $rules:ident)* }
    ) => {
        match $algo {
            $(#[cfg(feature = $name)] Algo::$variant($a) => $call,)*
            $(#[cfg(feature = $feature)] Algo::$other($a) => $call,)*
            Algo::Fixed($a) => $call,
            #[cfg(feature = "custom")]
            Algo::Custom($a) => $call,
        }
    };
}

pub(super) use {each, each_of};
