//! Options about a path that several commands have.

use fullpipe_cc::{Duration, Rate};
use fullpipe_lab::plan::{PathExtras, TraceText};
use fullpipe_lab::units::{self, Buffer};
use fullpipe_path::Probability;

/// Elements beside rate, round-trip time, buffer and loss.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "More of the path")]
pub(crate) struct PathArgs {
    /// Rate over time, and round-trip time and loss if the file has them: Mahimahi's format or a
    /// table like CSV (fullpipe trace FILE shows what is understood), lte, wifi, or the table of a
    /// scenario file, '{ file = "x.csv", interval = "10ms" }'
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<TraceText>,
    /// The queue's discipline: tail_drop, codel, fq_codel, pie, dualpi2, or with parameters as in a
    /// scenario file, '{ codel = { target = "5ms" } }'
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Losses in bursts, as Gilbert and Elliott have them: from good to bad, from bad to good, and
    /// the loss in each of the two [default: 0% and 100%], like ge:0.1%,10% or ge:0.1%,10%,0%,50%
    #[arg(long, value_name = "MODEL", value_parser = parse_loss_model, allow_hyphen_values = true)]
    pub(crate) loss_model: Option<String>,
    /// Drop what comes faster than a rate and is more than a bucket holds, like 25mbit,100kB
    #[arg(long, value_name = "RATE,SIZE", value_parser = parse_policer, allow_hyphen_values = true)]
    pub(crate) policer: Option<String>,
    /// Delay each packet by anything up to this, in order, like 2ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub(crate) jitter: Option<Duration>,
    /// Hold packets back so that others overtake them: how many and for how long, like 1%,3ms or
    /// 100,3ms for every 100th
    #[arg(long, value_name = "SHARE,TIME", value_parser = parse_reorder, allow_hyphen_values = true)]
    pub(crate) reorder: Option<String>,
    /// Another rate for the way back
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate, allow_hyphen_values = true)]
    pub(crate) up_rate: Option<Rate>,
    /// Rate of the way back over time, as --trace
    #[arg(long, value_name = "FILE", conflicts_with = "up_rate")]
    pub(crate) up_trace: Option<TraceText>,
    /// The buffer of the way back's bottleneck
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) up_buffer: Option<Buffer>,
    /// Random loss of the way back, like 0.1% or 0.001
    #[arg(long, value_parser = units::parse_loss, allow_hyphen_values = true)]
    pub(crate) up_loss: Option<Probability>,
}

impl PathArgs {
    /// The same as the text of a scenario file.
    pub(crate) fn extras(&self) -> PathExtras {
        PathExtras {
            trace: self.trace.clone(),
            queue: self.queue.clone(),
            loss_model: self.loss_model.clone(),
            policer: self.policer.clone(),
            jitter: self.jitter.map(units::show_duration),
            reorder: self.reorder.clone(),
            up_rate: self.up_rate.map(units::show_rate),
            up_trace: self.up_trace.clone(),
            up_buffer: self.up_buffer.map(|buffer| buffer.to_string()),
            up_loss: self.up_loss.map(|p| units::show_loss(p.as_f64())),
        }
    }

    /// True if any of them is there.
    pub(crate) fn is_any(&self) -> bool {
        self.extras() != PathExtras::default()
    }
}

/// `1%,3ms` or `100,3ms` as the table of a scenario file.
fn parse_reorder(text: &str) -> Result<String, String> {
    let like = "write a share and a time, as 1%,3ms, or for every 100th packet 100,3ms";
    let (which, delay) = text.split_once(',').ok_or_else(|| format!("no comma; {like}"))?;
    let delay = units::parse_duration(delay).map_err(|e| format!("{e}; {like}"))?;
    let delay = units::show_duration(delay);
    if let Ok(every) = units::parse_count_above_0(which) {
        return Ok(format!("{{ every = {every}, delay = \"{delay}\" }}"));
    }
    let chance = units::parse_loss(which)
        .map_err(|_| format!("'{}' is no share of packets; {like}", which.escape_debug()))?;
    let chance = units::show_loss(chance.as_f64());
    Ok(format!("{{ chance = \"{chance}\", delay = \"{delay}\" }}"))
}

/// `25mbit,100kB` as the table of a scenario file.
fn parse_policer(text: &str) -> Result<String, String> {
    let like = "write a rate and a bucket, as 25mbit,100kB";
    let (rate, bucket) = text.split_once(',').ok_or_else(|| format!("no comma; {like}"))?;
    let rate = units::parse_rate(rate).map_err(|e| format!("{e}; {like}"))?;
    let bucket = units::parse_bytes(bucket).map_err(|e| format!("{e}; {like}"))?;
    let (rate, bucket) = (units::show_rate(rate), units::show_bytes(bucket));
    Ok(format!("{{ rate = \"{rate}\", bucket = \"{bucket}\" }}"))
}

/// `ge:0.1%,10%` as an element of a scenario file.
fn parse_loss_model(text: &str) -> Result<String, String> {
    let like = "write ge: and two to four shares, as ge:0.1%,10%";
    let shares = text.strip_prefix("ge:").ok_or_else(|| format!("no such model; {like}"))?;
    let share = |text: &str| match text.trim() {
        // No loss of a path, but the one of its bad state.
        "100%" | "1" => Ok("100%".to_owned()),
        text => units::parse_loss(text)
            .map(|p| units::show_loss(p.as_f64()))
            .map_err(|e| format!("{e}; {like}")),
    };
    let shares = shares.split(',').map(share).collect::<Result<Vec<_>, _>>()?;
    if !(2..=4).contains(&shares.len()) {
        return Err(format!("{} shares; {like}", shares.len()));
    }
    let names = ["to_bad", "to_good", "good", "bad"];
    let fields: Vec<String> =
        names.iter().zip(shares).map(|(name, share)| format!("{name} = \"{share}\"")).collect();
    Ok(format!("{{ gilbert_elliott = {{ {} }} }}", fields.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_is_a_share_or_a_number_and_a_time() {
        let table = |text| parse_reorder(text).expect(text);
        assert_eq!(table("1%,3ms"), "{ chance = \"1%\", delay = \"3ms\" }");
        assert_eq!(table("100,3ms"), "{ every = 100, delay = \"3ms\" }");
        for wrong in ["", "1%", "1%,3", "x,3ms", "0,3ms", "-1,3ms"] {
            let why = parse_reorder(wrong).err();
            assert!(why.is_none_or(|why| why.contains("1%,3ms")), "{wrong}");
        }
        assert!(parse_reorder("x,3ms").is_err() && parse_reorder("1%").is_err());
    }

    #[test]
    fn losses_in_bursts_and_a_policer_are_tables_of_a_file() {
        let model = |text| parse_loss_model(text).expect(text);
        assert_eq!(
            model("ge:0.1%,100%"),
            "{ gilbert_elliott = { to_bad = \"0.1%\", to_good = \"100%\" } }"
        );
        assert!(model("ge:0.001,10%,0%,50%").contains("good = \"0%\", bad = \"50%\""));
        for wrong in ["", "0.1%", "ge:", "ge:1%", "ge:1%,2%,3%,4%,5%", "ge:x,1%"] {
            assert!(parse_loss_model(wrong).expect_err(wrong).contains("ge:0.1%,10%"), "{wrong}");
        }
        assert_eq!(
            parse_policer("25mbit,100kB").expect("one"),
            "{ rate = \"25mbit\", bucket = \"100kB\" }"
        );
        for wrong in ["", "25mbit", "25,100kB", "25mbit,big"] {
            assert!(parse_policer(wrong).expect_err(wrong).contains("25mbit,100kB"), "{wrong}");
        }
    }
}
