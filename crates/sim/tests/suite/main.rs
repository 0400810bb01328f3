//! The simulator, under its own clock: the same numbers on every machine.

mod aggregation;
mod algorithms;
mod analytic;
mod aqm;
mod bandwidth;
mod data_center;
mod examples;
mod flow_control;
mod graph;
mod hosts;
mod l4s;
mod media;
mod outages;
mod recovery;
mod transport;
