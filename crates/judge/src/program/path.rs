//! The path of a program: that of a scenario.

use fullpipe_cc::Duration;
use fullpipe_path::{CrossSource, ElementConfig, PathConfig, RateConfig};

use fullpipe_lab::backend::RealPath;
use fullpipe_report::plan::Plan;

/// A path both ways. Its times count from the start of the command.
#[derive(Clone, Debug)]
pub struct ProgramPath {
    /// The scenario's name.
    pub name: String,
    /// The scenario's text.
    pub toml: String,
    /// To the command.
    pub down: PathConfig,
    /// From the command.
    pub up: PathConfig,
    /// Traffic that shares the way to the command.
    pub cross: Vec<CrossSource>,
    /// The round trip without queues.
    pub rtt: Duration,
}

impl ProgramPath {
    /// The path of a plan. Its links are passed by what the command receives; with `reverse`, by
    /// what it sends.
    ///
    /// # Errors
    /// The plan has several paths, or cross traffic in what would be the command's direction.
    pub fn of(plan: &Plan, reverse: bool) -> Result<Self, String> {
        let [run] = plan.grid.runs.as_slice() else {
            return Err(format!(
                "its lists make {} paths, and a command has one; write one value in place of each list",
                plan.grid.runs.len()
            ));
        };
        let path = RealPath::of_run(run);
        let cross = path.cross_after(Duration::ZERO);
        if reverse && !cross.is_empty() {
            return Err(
                "cross traffic passes the links to the command; leave out --reverse or [[cross]]"
                    .to_owned(),
            );
        }
        let (links, back) =
            (path.downlink_after(Duration::ZERO), path.uplink_after(Duration::ZERO));
        let (down, up) = if reverse { (back, links) } else { (links, back) };
        Ok(Self {
            name: plan.name.clone(),
            toml: plan.text.clone(),
            down,
            up,
            cross,
            rtt: path.rtt(),
        })
    }
}

/// Rate of the first bottleneck, where there is one.
pub(super) fn first_rate(path: &PathConfig) -> Option<&RateConfig> {
    path.row.iter().find_map(|element| match element {
        ElementConfig::Bottleneck { rate, .. } => Some(rate),
        _ => None,
    })
}
