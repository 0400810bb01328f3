//! The lab under a virtual clock, and what needs none.

mod hostile;
mod metrics;
mod over_sim;
mod over_tcp_user;
mod quiche;
mod refusals;
mod verdicts;
