//! A path and its elements, from outside.

mod common;
mod elements;
mod oracles;
mod path;
mod properties;
mod queues;
mod series;
