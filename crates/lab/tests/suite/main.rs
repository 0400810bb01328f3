//! The lab under a virtual clock, and what needs none.

mod beside_sim;
mod fields;
mod hostile;
mod metrics;
mod over_quic_noq;
mod over_quic_quinn;
mod over_sim;
mod over_tcp_user;
mod page;
mod refusals;
mod repeated;
mod topology;
mod traces;
