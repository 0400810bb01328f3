//! Makes JavaScript of a WebAssembly module that uses wasm-bindgen: `fullpipe-web-bindgen
//! MODULE.wasm DIR`.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [module, dir] = args.as_slice() else {
        eprintln!("usage: fullpipe-web-bindgen MODULE.wasm DIR");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let web = bindgen.input_path(module).typescript(true).remove_name_section(true).web(true);
    match web.and_then(|web| web.generate(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fullpipe-web-bindgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}
