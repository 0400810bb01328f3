//! Options of a trace: the file, and what it does not say of itself.

use std::str::FromStr as _;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use fullpipe_report::plan::TraceOption;
use fullpipe_scenario::document::TraceField;
use fullpipe_scenario::trace::{RateUnit, TimeUnit};

/// What a trace file does not say of itself.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ReadingArgs {
    /// Unit of the trace's rates, where the column's name says none; B/row is bytes that were
    /// delivered since the row before [default: mbit/s]
    #[arg(long, value_name = "UNIT", value_parser = rate_unit(), requires = "trace")]
    rate_unit: Option<RateUnit>,
    /// Unit of its round-trip times or delays, where the column's name says none [default: ms]
    #[arg(long, value_name = "UNIT", value_parser = time_unit(), requires = "trace")]
    rtt_unit: Option<TimeUnit>,
    /// Unit of its times, where the column's name says none [default: s, or what a time since 1970
    /// shows by its size]
    #[arg(long, value_name = "UNIT", value_parser = time_unit(), requires = "trace")]
    time_unit: Option<TimeUnit>,
    /// The way in which its times are written, in the codes of strftime, like '%m/%d/%Y %I:%M %p'
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    time_format: Option<String>,
    /// A second file with one-way delays or round-trip times; --rtt-unit is of this one
    #[arg(long, value_name = "FILE", value_parser = TraceField::from_str, requires = "trace")]
    delay_trace: Option<TraceField>,
}

fn rate_unit() -> impl TypedValueParser<Value = RateUnit> {
    let names = PossibleValuesParser::new(RateUnit::ALL.map(RateUnit::name));
    names.map(|name| {
        let named = RateUnit::ALL.into_iter().find(|unit| unit.name() == name);
        named.expect("one of those names")
    })
}

fn time_unit() -> impl TypedValueParser<Value = TimeUnit> {
    let names = PossibleValuesParser::new(TimeUnit::ALL.map(TimeUnit::name));
    names.map(|name| {
        let named = TimeUnit::ALL.into_iter().find(|unit| unit.name() == name);
        named.expect("one of those names")
    })
}

impl ReadingArgs {
    /// The field with these options; each counts more than the same one in its table.
    pub(crate) fn on(&self, field: &TraceField) -> TraceField {
        let mut field = field.clone();
        let Self { rate_unit, rtt_unit, time_unit, time_format, delay_trace } = self.clone();
        field.delay_trace = delay_trace.map(Box::new).or(field.delay_trace);
        let delays = field.delay_trace.as_mut().map(|delays| &mut delays.options);
        let of_delays = delays.unwrap_or(&mut field.options);
        of_delays.rtt_unit = rtt_unit.or(of_delays.rtt_unit);
        let options = &mut field.options;
        options.rate_unit = rate_unit.or(options.rate_unit);
        options.time_unit = time_unit.or(options.time_unit);
        options.time_format = time_format.or(options.time_format.take());
        field
    }
}

#[derive(clap::Args)]
struct Written {
    /// Rate over time, and round-trip time and loss if the file has them: Mahimahi's format or a
    /// table like CSV (fullpipe trace FILE shows what is understood), lte, wifi, or the table of a
    /// scenario file, '{ file = "x.csv", interval = "10ms" }'
    #[arg(long, value_name = "FILE", value_parser = TraceField::from_str)]
    trace: Option<TraceField>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// The option --trace with those that say how its file is read, which is read once all are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceArgs(pub(crate) Option<TraceOption>);

impl FromArgMatches for TraceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Written { trace, reading } = Written::from_arg_matches(matches)?;
        let read = trace.map(|field| {
            TraceOption::read(reading.on(&field)).map_err(|e| {
                let file = field.file.escape_debug();
                let text = format!("invalid value '{file}' for '--trace <FILE>': {e}");
                clap::Error::raw(ErrorKind::ValueValidation, text)
            })
        });
        Ok(Self(read.transpose()?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TraceArgs {
    fn augment_args(command: Command) -> Command {
        Written::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Written::augment_args_for_update(command)
    }
}
