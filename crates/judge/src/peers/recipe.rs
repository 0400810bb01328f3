//! The recipes, as `recipes.toml` has them.

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

use fullpipe_report::Part;
use fullpipe_scenario::suggest::did_you_mean;

/// A way to install a stack and to run it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name, which its folder has too.
    pub name: String,
    /// For people.
    pub about: String,
    /// The version that is installed; none of what is the system's or this program's.
    pub version: Option<String>,
    /// Registry and name there.
    pub origin: String,
    /// Programs that have to be there before.
    #[serde(default)]
    pub(super) needs: Vec<String>,
    /// A hint at how these are installed.
    #[serde(default)]
    pub(super) hint: String,
    /// Files of ours that its folder gets.
    #[serde(default)]
    pub(super) files: Vec<String>,
    /// Commands that install it, in its folder.
    #[serde(default)]
    pub(super) install: Vec<String>,
    /// A command that prints what is installed.
    pub(super) says: String,
    /// Templates of a flow's program.
    pub(super) server: String,
    pub(super) client: String,
    pub(super) sends: String,
    /// The ends of a bulk transfer over loopback, where there are some.
    #[serde(default)]
    pub(super) bulk: Bulk,
    /// A command that is one end of a case of `fullpipe interop`; what it is told stands in
    /// docs/interop.md.
    pub(super) interop: Option<String>,
    /// The protocol that this end speaks in every case, where it has no hq-interop.
    pub interop_alpn: Option<String>,
    /// Its congestion controls.
    pub cc: Vec<String>,
}

/// The ends of bulk transfers, by where the server has the data.
#[derive(Clone, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    pub(super) memory: Option<Ends>,
    pub(super) file: Option<Ends>,
}

/// Templates of a server, and of a client that fetches a gigabyte and ends.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ends {
    pub(super) server: String,
    pub(super) client: String,
}

#[derive(Deserialize)]
struct File {
    recipe: Vec<Recipe>,
}

static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a file of this crate, which a test reads")]
    toml::from_str::<File>(include_str!("recipes.toml")).expect("sound recipes").recipe
});

/// The files of ours by their names.
const FILES: [(&str, &str); 14] = [
    ("aioquic_peer.py", include_str!("programs/aioquic_peer.py")),
    ("ngtcp2_interop.sh", include_str!("programs/ngtcp2_interop.sh")),
    ("picoquic_python.sh", include_str!("programs/picoquic_python.sh")),
    ("python_interop.py", include_str!("programs/python_interop.py")),
    ("picoquic_peer.py", include_str!("programs/picoquic_peer.py")),
    ("quic-go.go", include_str!("programs/quic-go.go")),
    ("quic-go-interop.go", include_str!("programs/quic-go-interop.go")),
    ("quic-go.mod", include_str!("programs/quic-go.mod")),
    ("quiche.rs", include_str!("programs/quiche.rs")),
    ("quiche.toml", include_str!("programs/quiche.toml")),
    ("quinn.rs", include_str!("programs/quinn.rs")),
    ("quinn.toml", include_str!("programs/quinn.toml")),
    ("s2n-quic.rs", include_str!("programs/s2n-quic.rs")),
    ("s2n-quic.toml", include_str!("programs/s2n-quic.toml")),
];

/// The name of this program's own recipe.
pub const OWN: &str = "fullpipe";

/// All recipes.
pub fn recipes() -> &'static [Recipe] {
    &RECIPES
}

/// A recipe with some of its congestion controls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The recipe.
    pub recipe: &'static Recipe,
    /// Those of its congestion controls that were asked for.
    pub cc: Vec<&'static str>,
}

/// A name that no recipe has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{name}' is no stack; there are {}{meant}", .all.join(", "))]
pub struct UnknownSender {
    name: String,
    all: Vec<String>,
    meant: String,
}

/// The recipes of these names, each `STACK` or `STACK:ALGORITHM`; all of no names.
///
/// # Errors
/// A name that is none.
pub fn choose(names: &[String]) -> Result<Vec<Chosen>, UnknownSender> {
    let whole = |recipe: &'static Recipe| Chosen {
        recipe,
        cc: recipe.cc.iter().map(String::as_str).collect(),
    };
    if names.is_empty() {
        return Ok(recipes().iter().map(whole).collect());
    }
    let mut chosen: Vec<Chosen> = Vec::new();
    for name in names {
        let (stack, cc) = name.split_once(':').map_or((name.as_str(), None), |(s, c)| (s, Some(c)));
        let found = recipes().iter().find(|recipe| recipe.name == stack);
        let found = found.ok_or_else(|| unknown(name, recipes().iter().map(|r| r.name.clone())))?;
        let all = whole(found);
        let cc = match cc {
            None => all.cc,
            Some(cc) => {
                let one = all.cc.iter().find(|known| known.eq_ignore_ascii_case(cc));
                let senders = all.cc.iter().map(|cc| found.sender(cc));
                vec![*one.ok_or_else(|| unknown(name, senders))?]
            }
        };
        match chosen.iter_mut().find(|known| known.recipe == found) {
            Some(known) => {
                known.cc.extend(cc);
                known.cc.sort_by_key(|cc| found.cc.iter().position(|known| known == cc));
                known.cc.dedup();
            }
            None => chosen.push(Chosen { recipe: found, cc }),
        }
    }
    Ok(chosen)
}

fn unknown(name: &str, all: impl Iterator<Item = String>) -> UnknownSender {
    let all: Vec<String> = all.collect();
    let meant = did_you_mean(name, all.iter().map(String::as_str));
    UnknownSender { name: name.escape_debug().to_string(), all, meant }
}

/// Values for the places of a recipe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placeholders<'a> {
    /// The folder of all peers.
    pub(super) root: &'a Path,
    /// This program.
    pub(super) itself: &'a Path,
    pub(super) cc: &'a str,
}

impl<'a> Placeholders<'a> {
    /// Those of a command in which no congestion control is chosen.
    pub(super) fn new(root: &'a Path, itself: &'a Path) -> Self {
        Self { root, itself, cc: "" }
    }
}

impl Recipe {
    /// The name of a sender: the stack's and its congestion control's.
    pub fn sender(&self, cc: &str) -> String {
        format!("{}:{}", self.name, cc.to_ascii_lowercase())
    }

    /// The command line of an end of an interop case, in which `{endpoint}` is our script for it
    /// and `{scripts}` the folder with the [scripts](Self::scripts); nothing of a stack that has
    /// none.
    pub fn interop_command(&self, root: &Path, itself: &Path, endpoint: &Path) -> Option<String> {
        let path = |path: &Path| quoted(&path.to_string_lossy());
        let command = self.interop.as_ref()?.replace("{endpoint}", &path(endpoint));
        let scripts = endpoint.parent().unwrap_or(Path::new("/"));
        let command = command.replace("{scripts}", &path(scripts));
        let command = self.filled(&command, Placeholders::new(root, itself));
        // The runner asks each end for a qlog; a build of this program without them would refuse
        // that.
        Some(match self.name == OWN && !Part::Qlog.is_built() {
            true => format!("env -u QLOGDIR {command}"),
            false => command,
        })
    }

    /// The files of ours that a stack of the system needs, which has no folder: name and content.
    pub fn scripts(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        self.own_files().filter(|_| self.install.is_empty())
    }

    /// True if it can be an end of an interop case.
    pub fn has_interop(&self) -> bool {
        self.interop.is_some()
    }

    /// The files of ours that it needs: name and content.
    pub(super) fn own_files(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        FILES.into_iter().filter(|(name, _)| self.files.iter().any(|own| own == name))
    }

    /// A command with its places filled: those of a flow's program stay.
    pub(super) fn filled(&self, command: &str, places: Placeholders<'_>) -> String {
        let path = |path: &Path| quoted(&path.to_string_lossy());
        command
            .replace("{dir}", &path(&places.root.join(&self.name)))
            .replace("{version}", self.version.as_deref().unwrap_or_default())
            .replace("{cc}", places.cc)
            .replace("{files}", &path(&places.root.join(FILES_DIR)))
            .replace("{cert}", &path(&places.root.join(CERTIFICATE)))
            .replace("{key}", &path(&places.root.join(KEY)))
            .replace("{self}", &path(places.itself))
    }
}

/// Names in the folder of all peers.
pub(super) const FILES_DIR: &str = "files";
pub(super) const CERTIFICATE: &str = "cert.pem";
pub(super) const KEY: &str = "key.pem";

/// A path inside a word of a command.
fn quoted(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_can_be_followed() {
        assert!(recipes().len() >= 8);
        for recipe in recipes() {
            assert!(!recipe.cc.is_empty(), "{}", recipe.name);
            let places =
                Placeholders { root: Path::new("/a b"), itself: Path::new("/c/d"), cc: "x" };
            let commands =
                recipe.install.iter().chain([&recipe.says, &recipe.server, &recipe.client]);
            let bulk = [&recipe.bulk.memory, &recipe.bulk.file].into_iter().flatten();
            let bulk: Vec<&String> = bulk.flat_map(|ends| [&ends.server, &ends.client]).collect();
            assert!(bulk.iter().all(|one| one.contains("{port}")), "{bulk:?}");
            let commands = commands.chain(&recipe.interop).chain(bulk);
            for command in commands {
                let filled = recipe.filled(command, places);
                assert!(shlex::split(&filled).is_some_and(|words| !words.is_empty()), "{filled}");
            }
            for template in [&recipe.server, &recipe.client] {
                assert!(template.contains("{port}"), "{template}");
            }
            assert_eq!(recipe.own_files().count(), recipe.files.len(), "{}", recipe.name);
            assert!(recipe.install.is_empty() || recipe.version.is_some(), "{}", recipe.name);
            let pins = recipe.install.join(" ").contains("{version}");
            let ours = recipe.own_files().any(|(_, text)| {
                recipe.version.as_ref().is_some_and(|version| text.contains(version.as_str()))
            });
            assert!(recipe.install.is_empty() || pins || ours, "{} pins nothing", recipe.name);
        }
        for (name, _) in FILES {
            assert!(recipes().iter().any(|r| r.files.iter().any(|f| f == name)), "{name}");
        }
    }

    #[test]
    fn senders_are_chosen_by_stack_or_by_name() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            choose(&words).map(|chosen| {
                chosen
                    .iter()
                    .flat_map(|c| c.cc.iter().map(|cc| c.recipe.sender(cc)))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(
            names(&["linux:cubic", "linux:bbr"]).expect("two"),
            ["linux:bbr", "linux:cubic"]
        );
        assert_eq!(names(&["quic-go", "tquic:bbr3"]).expect("two"), ["quic-go:reno", "tquic:bbr3"]);
        assert!(names(&[]).expect("all").len() > 20);
        let error = names(&["linx"]).expect_err("none").to_string();
        assert!(error.contains("did you mean linux"), "{error}");
        let error = names(&["linux:bbr4"]).expect_err("none").to_string();
        assert!(error.contains("linux:cubic") && !error.contains('\n'), "{error}");
    }
}
