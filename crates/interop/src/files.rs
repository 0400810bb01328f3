//! The files of a case, and the certificates that its server has.

use std::fs;
use std::io;
use std::path::Path;

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};

use super::cases::{Case, Files, Kind};

/// Names of the server in its certificate.
const NAMES: [&str; 4] = ["server", "server4", "server6", "server46"];

/// Certificates of the case of the amplification limit, and what makes them long: names in the
/// server's.
const LONG_CHAIN: usize = 9;
const LONG_NAMES: usize = 20;
const LONG_NAME_LABELS: usize = 4;
const LABEL_CHARS: usize = 60;

/// Writes the files of a case; their names.
pub(super) fn write_files(case: &Case, dir: &Path, seed: u64) -> io::Result<Vec<String>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let sizes: Vec<(usize, usize)> = match case.files {
        Files::Sizes(sizes) => sizes.iter().map(|bytes| (*bytes, 8)).collect(),
        Files::Many { count, bytes, name_chars } => vec![(bytes, name_chars); count],
    };
    let mut names = Vec::new();
    for (i, (bytes, chars)) in sizes.into_iter().enumerate() {
        let name: String = (0..chars).map(|_| letter(&mut random)).collect();
        // Numbered, so that no two are the same.
        let name = format!("{i:04}{}", &name[4..]);
        let mut content = vec![0; bytes];
        random.fill_bytes(&mut content);
        fs::write(dir.join(&name), content)?;
        names.push(name);
    }
    Ok(names)
}

fn letter(random: &mut Pcg64Mcg) -> char {
    char::from(b'a' + (random.next_u32() % 26) as u8)
}

/// The fault of the downloads; nothing if all files are there and equal, and no others.
pub(super) fn compare(www: &Path, downloads: &Path, names: &[String]) -> io::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut missing = 0;
    for name in names {
        match fs::read(downloads.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => missing += 1,
            Err(e) => return Err(e),
            Ok(got) => {
                let given = fs::read(www.join(name))?;
                if got.len() != given.len() {
                    wrong.push(format!("{name} has {} bytes of {}", got.len(), given.len()));
                } else if got != given {
                    wrong.push(format!("{name} has other bytes"));
                }
            }
        }
    }
    if missing > 0 {
        wrong.push(format!("{missing} of {} files were not downloaded", names.len()));
    }
    let others = fs::read_dir(downloads)?.filter_map(|entry| {
        let entry = entry.ok().filter(|entry| entry.path().is_file())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        (!names.contains(&name)).then_some(name)
    });
    wrong.extend(others.map(|name| format!("{name:?} was not asked for")));
    Ok(wrong)
}

/// Writes `cert.pem`, the chain of the server's certificate, and `priv.key`.
pub(super) fn write_certificates(case: &Case, dir: &Path, hosts: &[String]) -> io::Result<()> {
    let (chain, key) = chain(case, hosts).map_err(io::Error::other)?;
    fs::write(dir.join("cert.pem"), chain)?;
    fs::write(dir.join("priv.key"), key)
}

fn chain(case: &Case, hosts: &[String]) -> Result<(String, String), rcgen::Error> {
    let is_long = case.kind == Kind::AmplificationLimit;
    let length = if is_long { LONG_CHAIN } else { 1 };
    let authority = |name: &str| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::OrganizationName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(params)
    };
    let mut issuer =
        CertifiedIssuer::self_signed(authority("fullpipe interop root")?, KeyPair::generate()?)?;
    let mut above = String::new();
    for i in 1..length {
        let params = authority(&format!("fullpipe interop intermediate {i}"))?;
        let next = CertifiedIssuer::signed_by(params, KeyPair::generate()?, &issuer)?;
        // The chain begins with the server's and ends below the root.
        above = next.pem() + &above;
        issuer = next;
    }
    let long_name = |i: usize| {
        let label = |j: usize| format!("{i:02}{j:02}").repeat(LABEL_CHARS / 4);
        (0..LONG_NAME_LABELS).map(label).collect::<Vec<_>>().join(".")
    };
    let long = (0..LONG_NAMES).filter(|_| is_long).map(long_name);
    let names =
        NAMES.iter().map(|name| (*name).to_owned()).chain(hosts.iter().cloned()).chain(long);
    let mut params = CertificateParams::new(names.collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::OrganizationName, "fullpipe interop server");
    let key = KeyPair::generate()?;
    let own = params.signed_by(&key, &issuer)?;
    Ok((own.pem() + &above, key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::*;

    #[test]
    fn every_difference_between_files_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let (www, downloads) = (dir.path().join("www"), dir.path().join("downloads"));
        for made in [&www, &downloads] {
            fs::create_dir(made).expect("a directory");
        }
        let case = CASES.iter().find(|case| case.kind == Kind::ZeroRtt).expect("a case");
        let names = write_files(case, &www, 1).expect("files");
        assert!(names.len() == 40 && names.iter().all(|name| name.len() == 250));
        for name in &names {
            fs::copy(www.join(name), downloads.join(name)).expect("a copy");
        }
        let wrong = || compare(&www, &downloads, &names).expect("they can be read").join("; ");
        assert_eq!(wrong(), "");
        fs::write(downloads.join(&names[0]), "short").expect("a file");
        assert!(wrong().contains("5 bytes of 32"), "{}", wrong());
        fs::write(downloads.join(&names[0]), [0; 32]).expect("a file");
        assert!(wrong().contains("other bytes"), "{}", wrong());
        fs::remove_file(downloads.join(&names[1])).expect("it is there");
        assert!(wrong().contains("1 of 40 files were not"), "{}", wrong());
        fs::write(downloads.join("more"), "").expect("a file");
        assert!(wrong().contains("\"more\" was not asked for"), "{}", wrong());
    }

    #[test]
    fn one_case_has_a_long_chain() {
        for case in &CASES {
            let (chain, key) = chain(case, &["198.18.0.1".to_owned()]).expect("certificates");
            let (count, long) = (chain.matches("BEGIN CERT").count(), chain.len() > 9000);
            let is_long = case.kind == Kind::AmplificationLimit;
            assert_eq!(
                (count, long),
                (if is_long { LONG_CHAIN } else { 1 }, is_long),
                "{}",
                case.name
            );
            assert!(key.contains("PRIVATE KEY"));
        }
    }
}
