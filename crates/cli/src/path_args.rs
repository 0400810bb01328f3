//! Options about a path, the same ones for each command that has a path.

use std::path::{Path, PathBuf};

use fullpipe_cc::{Duration, Rate};
use fullpipe_judge::program::judge::TestPath;
use fullpipe_judge::program::{PathOptions, ProgramPath};
use fullpipe_path::Probability;
use fullpipe_report::plan::Options;
use fullpipe_report::plan::{NetworkText, PathExtras, TraceOption, integer, table};
use fullpipe_scenario::Over;
use fullpipe_scenario::units::{self, Buffer};
use toml::Value;

use crate::failure::Failure;
use crate::say;
use crate::trace_args::TraceArgs;

/// The path: its rate and the rest, or that of a scenario file.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Path")]
pub(crate) struct PathArgs {
    /// Rate of the bottleneck, IP and UDP headers included, like 100mbit, 1gbit or 500kbit
    /// [default: 100mbit (judge, peers: 20mbit), or that of --trace]
    #[arg(long, value_parser = units::parse_rate, allow_hyphen_values = true)]
    pub(crate) rate: Option<Rate>,
    /// Round-trip propagation delay, like 40ms, 1s or 200us [default: 40ms, or that of --trace]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub(crate) rtt: Option<Duration>,
    /// The bottleneck's buffer, like 1bdp (rate x rtt), 6MB, 700pkts or 100ms (of the rate)
    /// [default: 1bdp (judge, peers: 2bdp)]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) buffer: Option<Buffer>,
    /// Random loss, like 0.1% or 0.001 [default: 0%]
    #[arg(long, value_parser = units::parse_loss, allow_hyphen_values = true)]
    pub(crate) loss: Option<Probability>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// The queue's discipline: tail_drop, codel, fq_codel, pie, dualpi2, or with parameters as in a
    /// scenario file, '{ codel = { target = "5ms" } }'
    #[arg(long, value_name = "NAME", value_parser = parse_queue)]
    pub(crate) queue: Option<Value>,
    /// Losses in bursts, as Gilbert and Elliott have them: from good to bad, from bad to good, and
    /// the loss in each of the two [default: 0% and 100%], like ge:0.1%,10% or ge:0.1%,10%,0%,50%
    #[arg(long, value_name = "MODEL", value_parser = parse_loss_model, allow_hyphen_values = true)]
    pub(crate) loss_model: Option<Value>,
    /// Drop what comes faster than a rate and is more than a bucket holds, like 25mbit,100kB
    #[arg(long, value_name = "RATE,SIZE", value_parser = parse_policer, allow_hyphen_values = true)]
    pub(crate) policer: Option<Value>,
    /// Delay each packet by chance, in order: by anything up to a time, like 2ms, or with a
    /// distribution of netem's, like 2ms,normal (the standard deviation) or 2ms,pareto, and with a
    /// correlation, like 2ms,25% or 2ms,normal,25%; or like a busy Wi-Fi channel, 7ms,wifi
    #[arg(long, value_name = "TIME", value_parser = parse_jitter, allow_hyphen_values = true)]
    pub(crate) jitter: Option<Value>,
    /// Hold packets back so that others overtake them: how many and for how long, like 1%,3ms or
    /// 100,3ms for every 100th
    #[arg(long, value_name = "SHARE,TIME", value_parser = parse_reorder, allow_hyphen_values = true)]
    pub(crate) reorder: Option<Value>,
    /// Another rate for the way back
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate, allow_hyphen_values = true)]
    pub(crate) up_rate: Option<Rate>,
    /// Rate of the way back over time, as --trace
    #[arg(long, value_name = "FILE", conflicts_with = "up_rate")]
    pub(crate) up_trace: Option<TraceOption>,
    /// The buffer of the way back's bottleneck
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) up_buffer: Option<Buffer>,
    /// Random loss of the way back, like 0.1% or 0.001
    #[arg(long, value_parser = units::parse_loss, allow_hyphen_values = true)]
    pub(crate) up_loss: Option<Probability>,
    /// Seed of everything random [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Take the path of a scenario file, with its cross traffic and seed; its flows and
    /// expectations are not used
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = PATH_OPTIONS)]
    pub(crate) scenario: Option<PathBuf>,
}

/// The options above that a file has in their place.
pub(crate) const PATH_OPTIONS: [&str; 20] = [
    "rate",
    "rtt",
    "buffer",
    "loss",
    "trace",
    "rate_unit",
    "rtt_unit",
    "time_unit",
    "time_format",
    "delay_trace",
    "queue",
    "loss_model",
    "policer",
    "jitter",
    "reorder",
    "up_rate",
    "up_trace",
    "up_buffer",
    "up_loss",
    "seed",
];

impl PathArgs {
    /// The elements beside rate, round-trip time, buffer and loss.
    pub(crate) fn extras(&self) -> PathExtras {
        PathExtras {
            trace: self.trace.0.clone(),
            queue: self.queue.clone(),
            loss_model: self.loss_model.clone(),
            policer: self.policer.clone(),
            jitter: self.jitter.clone(),
            reorder: self.reorder.clone(),
            up_rate: self.up_rate.map(units::show_rate),
            up_trace: self.up_trace.clone(),
            up_buffer: self.up_buffer.map(|buffer| buffer.to_string()),
            up_loss: self.up_loss.map(|p| units::show_loss(p.as_f64())),
        }
    }

    /// True if any of them but the seed is there.
    pub(crate) fn is_any(&self) -> bool {
        self.is_more_than_rate_and_rtt() || self.rate.is_some() || self.rtt.is_some()
    }

    /// The same without the two that a path of a name may have too.
    pub(crate) fn is_more_than_rate_and_rtt(&self) -> bool {
        self.buffer.is_some()
            || self.loss.is_some()
            || self.scenario.is_some()
            || self.extras() != PathExtras::default()
    }

    /// The path; the properties that are not said here are those of `usual`.
    pub(crate) fn over(&self, usual: Options) -> Result<Options, Failure> {
        let network = self.scenario.as_deref().map(NetworkText::load);
        let network = network.transpose().map_err(Failure::bad_input)?;
        let extras = self.extras();
        let of_file = network.as_ref().and_then(|network| network.seeds.first().copied());
        let seed = of_file.or(self.seed);
        Ok(Options {
            // What a trace has is not said a second time.
            rate: self.rate.map(units::show_rate).or(usual.rate.filter(|_| !extras.has_rate())),
            rtt: self.rtt.map(units::show_duration).or(usual.rtt.filter(|_| !extras.has_rtt())),
            buffer: self.buffer.map_or(usual.buffer, |buffer| buffer.to_string()),
            loss: self.loss.map_or(usual.loss, |p| units::show_loss(p.as_f64())),
            seed: seed.unwrap_or(usual.seed),
            over: network.as_ref().map_or(usual.over, |network| usual.over.or(network.over)),
            extras,
            network,
            ..usual
        })
    }

    /// Says that what a file names for its own flows counts for nothing where programs send.
    pub(crate) fn tell_of_stack(&self, over: Over) {
        if let (Some(file), true) = (&self.scenario, over != Over::default()) {
            let fields = over.fields().into_iter();
            let fields: Vec<_> =
                fields.map(|(field, name)| format!("{field} = \"{name}\"")).collect();
            let (file, fields) = (file.display(), fields.join(", "));
            say(&format!("{file}: {fields}: of the flows of the file alone, which are not used"));
        }
    }

    /// The path as a path of `fullpipe judge`.
    pub(crate) fn test_path(&self, usual: Options, span_s: u64) -> Result<TestPath, Failure> {
        let options = self.over(usual)?;
        let (name, seed) = (options.name(), options.seed);
        if let Some(network) = options.network {
            let seed = self.one_seed(&network)?;
            self.tell_of_stack(network.over);
            let NetworkText { tables, dir, .. } = network;
            return Ok(TestPath::given(name, tables.to_string(), &dir, seed, span_s));
        }
        let options = of_a_program(options);
        options.plan().map_err(Failure::bad_input)?;
        Ok(TestPath::given(name, options.network_tables().to_string(), Path::new(""), seed, span_s))
    }

    /// The seed of the scenario file.
    pub(crate) fn one_seed(&self, network: &NetworkText) -> Result<u64, Failure> {
        let file = self.scenario.as_deref().unwrap_or(Path::new("-"));
        network.seed().map_err(|why| Failure::bad_input(format!("{}: {why}", file.display())))
    }

    /// The path of a program, which has all but what says `up` in both directions: nobody knows
    /// which of them carries its data. Of a scenario file the links are those to the command, or,
    /// with `reverse`, from it.
    pub(crate) fn program_path(
        &self,
        reverse: bool,
        usual: &Options,
    ) -> Result<ProgramPath, Failure> {
        if let Some(file) = &self.scenario {
            // Of one flow, whose controller nobody asks for.
            let cc = usual.cc.first().copied().into_iter().collect();
            let options = self.over(Options { cc, ..usual.clone() })?;
            let path = ProgramPath::of(&options.plan().map_err(Failure::bad_input)?, reverse)
                .map_err(|why| Failure::bad_input(format!("{}: {why}", file.display())))?;
            self.tell_of_stack(options.over);
            return Ok(path);
        }
        let plan = of_a_program(self.over(usual.clone())?).plan().map_err(Failure::bad_input)?;
        ProgramPath::of(&plan, false).map_err(Failure::bad_input)
    }
}

/// The options of a path that holds in both directions.
fn of_a_program(options: Options) -> PathOptions {
    let Options { rate, rtt, buffer, loss, seed, extras, .. } = options;
    let loss = Some(loss).filter(|loss| loss != "0%");
    PathOptions { rate, rtt, buffer, loss, seed, extras }
}

/// A seed that a scenario file can have, whose integers end at 2^63 - 1.
fn parse_seed(text: &str) -> Result<u64, String> {
    let seed = units::parse_count::<u64>(text).map_err(|e| e.to_string())?;
    match i64::try_from(seed) {
        Ok(_) => Ok(seed),
        Err(_) => Err(format!("more than a scenario file can have; write {} or less", i64::MAX)),
    }
}

/// `codel`, or a table like `{ codel = { target = "5ms" } }`.
fn parse_queue(text: &str) -> Result<Value, String> {
    if !text.trim_start().starts_with('{') {
        return Ok(text.into());
    }
    text.parse().map_err(|e: toml::de::Error| {
        let why = e.message().replace(['\n', '\r'], " ");
        format!(
            "{why}; write a name, as codel, or a table, as {{ codel = {{ target = \"5ms\" }} }}"
        )
    })
}

/// `2ms`, `2ms,normal`, `2ms,25%` or `2ms,normal,25%` as the value of an element of a scenario
/// file.
fn parse_jitter(text: &str) -> Result<Value, String> {
    let like = "write a time, as 2ms, with a distribution 2ms,normal, 2ms,pareto or 7ms,wifi, and with a correlation 2ms,25% or 2ms,normal,25%";
    let parts: Vec<&str> = text.split(',').collect();
    let (time, distribution, correlation) = match *parts.as_slice() {
        [time] => (time, None, None),
        // Without a name it is netem's own, which is uniform.
        [time, share] if share.starts_with(|c: char| c.is_ascii_digit()) => {
            (time, Some("uniform"), Some(share))
        }
        [time, distribution] => (time, Some(distribution), None),
        [time, distribution, share] => (time, Some(distribution), Some(share)),
        _ => return Err(format!("more than three parts; {like}")),
    };
    let time = units::parse_duration(time).map_err(|e| format!("{e}; {like}"))?;
    let time = units::show_duration(time);
    let Some(distribution) = distribution else { return Ok(time.into()) };
    if !["uniform", "normal", "pareto", "wifi"].contains(&distribution) {
        let name = distribution.escape_debug();
        return Err(format!("'{name}' is no distribution; {like}"));
    }
    let correlation = correlation.map(|share| parse_share(share, like)).transpose()?;
    let fields = [
        ("spread", Some(time.into())),
        ("distribution", Some(distribution.into())),
        ("correlation", correlation),
    ];
    Ok(table(fields).into())
}

/// A share, which may be the whole.
fn parse_share(text: &str, like: &str) -> Result<Value, String> {
    match text.trim() {
        "100%" | "1" => Ok("100%".into()),
        text => units::parse_loss(text)
            .map(|p| units::show_loss(p.as_f64()).into())
            .map_err(|e| format!("{e}; {like}")),
    }
}

/// `1%,3ms` or `100,3ms` as the table of a scenario file.
fn parse_reorder(text: &str) -> Result<Value, String> {
    let like = "write a share and a time, as 1%,3ms, or for every 100th packet 100,3ms";
    let (which, delay) = text.split_once(',').ok_or_else(|| format!("no comma; {like}"))?;
    let delay = units::parse_duration(delay).map_err(|e| format!("{e}; {like}"))?;
    let delay = ("delay", Some(units::show_duration(delay).into()));
    if let Ok(every) = units::parse_count_above_0(which) {
        return Ok(table([("every", Some(integer(every.get() as u64))), delay]).into());
    }
    let chance = units::parse_loss(which)
        .map_err(|_| format!("'{}' is no share of packets; {like}", which.escape_debug()))?;
    let chance = units::show_loss(chance.as_f64());
    Ok(table([("chance", Some(chance.into())), delay]).into())
}

/// `25mbit,100kB` as the table of a scenario file.
fn parse_policer(text: &str) -> Result<Value, String> {
    let like = "write a rate and a bucket, as 25mbit,100kB";
    let (rate, bucket) = text.split_once(',').ok_or_else(|| format!("no comma; {like}"))?;
    let rate = units::parse_rate(rate).map_err(|e| format!("{e}; {like}"))?;
    let bucket = units::parse_bytes(bucket).map_err(|e| format!("{e}; {like}"))?;
    let fields = [
        ("rate", Some(units::show_rate(rate).into())),
        ("bucket", Some(units::show_bytes(bucket).into())),
    ];
    Ok(table(fields).into())
}

/// `ge:0.1%,10%` as an element of a scenario file.
fn parse_loss_model(text: &str) -> Result<Value, String> {
    let like = "write ge: and two to four shares, as ge:0.1%,10%";
    let shares = text.strip_prefix("ge:").ok_or_else(|| format!("no such model; {like}"))?;
    // No loss of a path, but the one of its bad state, may be the whole.
    let shares = shares.split(',').map(|text| parse_share(text, like));
    let shares = shares.collect::<Result<Vec<_>, _>>()?;
    if !(2..=4).contains(&shares.len()) {
        return Err(format!("{} shares; {like}", shares.len()));
    }
    let names = ["to_bad", "to_good", "good", "bad"].map(str::to_owned);
    let model: toml::Table = names.into_iter().zip(shares).collect();
    Ok(table([("gilbert_elliott", Some(model.into()))]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordering_is_a_share_or_a_number_and_a_time() {
        let table = |text| parse_reorder(text).expect(text).to_string();
        assert_eq!(table("1%,3ms"), "{ chance = \"1%\", delay = \"3ms\" }");
        assert_eq!(table("100,3ms"), "{ every = 100, delay = \"3ms\" }");
        for wrong in ["", "1%", "1%,3", "x,3ms", "0,3ms", "-1,3ms"] {
            let why = parse_reorder(wrong).err();
            assert!(why.is_none_or(|why| why.contains("1%,3ms")), "{wrong}");
        }
        assert!(parse_reorder("x,3ms").is_err() && parse_reorder("1%").is_err());
    }

    #[test]
    fn a_jitter_is_a_time_and_a_distribution() {
        let value = |text| parse_jitter(text).expect(text).to_string();
        assert_eq!(value("2ms"), "\"2ms\"");
        assert_eq!(value("2ms,pareto"), "{ spread = \"2ms\", distribution = \"pareto\" }");
        assert!(value("1500us,normal,25%").ends_with("\"normal\", correlation = \"25%\" }"));
        assert!(value("2ms,25%").ends_with("\"uniform\", correlation = \"25%\" }"));
        assert_eq!(value("2ms,0.25"), value("2ms,uniform,25%"));
        for wrong in ["", "2", "2ms,weibull", "2ms,3ms", "2ms,normal,x", "2ms,normal,1%,1%", "-2ms"]
        {
            assert!(parse_jitter(wrong).expect_err(wrong).contains("2ms,normal"), "{wrong}");
        }
    }

    #[test]
    fn losses_in_bursts_and_a_policer_are_tables_of_a_file() {
        let model = |text| parse_loss_model(text).expect(text).to_string();
        assert_eq!(
            model("ge:0.1%,100%"),
            "{ gilbert_elliott = { to_bad = \"0.1%\", to_good = \"100%\" } }"
        );
        assert!(model("ge:0.001,10%,0%,50%").contains("good = \"0%\", bad = \"50%\""));
        for wrong in ["", "0.1%", "ge:", "ge:1%", "ge:1%,2%,3%,4%,5%", "ge:x,1%"] {
            assert!(parse_loss_model(wrong).expect_err(wrong).contains("ge:0.1%,10%"), "{wrong}");
        }
        assert_eq!(
            parse_policer("25mbit,100kB").expect("one").to_string(),
            "{ rate = \"25mbit\", bucket = \"100kB\" }"
        );
        for wrong in ["", "25mbit", "25,100kB", "25mbit,big"] {
            assert!(parse_policer(wrong).expect_err(wrong).contains("25mbit,100kB"), "{wrong}");
        }
    }
}
