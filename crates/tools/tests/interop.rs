//! `weft` against the second implementation of CDP, in Python, which knows nothing but the specification.

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn a_peer_written_from_the_specification_alone_understands_weft_and_is_understood() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/test.py");
        let ran = Command::new("python3").arg(&script).arg(env!("CARGO_BIN_EXE_weft")).output();
        let output = match ran {
            Ok(output) => output,
            Err(error) => {
                weft_skip::skipped!(
                    "python3 does not run here ({error}); install it to meet the second implementation"
                );
                return;
            }
        };
        let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{said}\n{errors}\nAgain with: python3 interop/test.py");
        // What its auditor could not judge counts as not run.
        said.lines()
            .filter(|line| line.starts_with("NOT JUDGED"))
            .for_each(|line| weft_skip::skipped!("{line}"));
    }
}
