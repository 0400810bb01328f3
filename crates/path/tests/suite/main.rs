//! A path and its elements, from outside.

mod common;
mod elements;
mod jitter;
mod oracles;
mod path;
mod properties;
mod queues;
mod series;
