//! Which requirement of `docs/spec/cdp.md` is kept where: ids held against their citations in code and tests.

mod citations;
mod exceptions;
mod requirements;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use self::citations::Citation;
use self::exceptions::Exception;
use self::requirements::Requirement;
use crate::tree;

/// The specification.
const DOCUMENT: &str = "docs/spec/cdp.md";
/// The MUSTs that no test cites yet, each with its reason.
const EXCEPTIONS: &str = "docs/spec/cdp-exceptions.toml";

/// What to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// The errors, and counts.
    Verdict,
    /// Every requirement with its citations.
    List,
    /// The requirements without a citation in tests, and those without one in code.
    Uncited,
}

/// Reads the tree under `root`, prints `view`, and fails on errors if `view` is the verdict.
pub(crate) fn run(root: &Path, view: View) -> Result<(), String> {
    let files = tree::read(root)?;
    let requirements = requirements::parse(&tree::find(&files, DOCUMENT)?.text)?;
    let exceptions = exceptions::parse(&tree::find(&files, EXCEPTIONS)?.text)?;
    let report = Report::new(requirements, exceptions, citations::find(&files));
    match view {
        View::List => report.print_list(),
        View::Uncited => report.print_uncited(),
        View::Verdict => return report.print_verdict(),
    }
    Ok(())
}

/// The requirements by id, and who cites them.
struct Report {
    requirements: BTreeMap<String, Requirement>,
    exceptions: Vec<Exception>,
    citations: Vec<Citation>,
    in_tests: BTreeSet<String>,
    in_code: BTreeSet<String>,
}

impl Report {
    fn new(requirements: Vec<Requirement>, exceptions: Vec<Exception>, citations: Vec<Citation>) -> Self {
        let ids = |is_test: bool| {
            let matching =
                citations.iter().filter(move |citation| citation.is_test == is_test && citation.counts);
            matching.map(|citation| citation.id.clone()).collect()
        };
        Self {
            in_tests: ids(true),
            in_code: ids(false),
            requirements: requirements.into_iter().map(|r| (r.id.clone(), r)).collect(),
            exceptions,
            citations,
        }
    }

    /// MUSTs that `cited` does not hold, in the order of the document.
    fn missing<'a>(&'a self, cited: &'a BTreeSet<String>) -> Vec<&'a Requirement> {
        let mut missing: Vec<&Requirement> =
            self.requirements.values().filter(|r| r.is_must && !cited.contains(&r.id)).collect();
        missing.sort_by_key(|requirement| requirement.line);
        missing
    }

    fn exception(&self, id: &str) -> Option<&Exception> {
        self.exceptions.iter().find(|exception| exception.ids.iter().any(|other| other == id))
    }

    /// What makes the check fail.
    fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for citation in &self.citations {
            if !self.requirements.contains_key(&citation.id) {
                errors.push(format!(
                    "{}:{}: {} is not in {DOCUMENT}",
                    citation.path, citation.line, citation.id
                ));
            }
        }
        for id in self.exceptions.iter().flat_map(|exception| &exception.ids) {
            let complaint = match self.requirements.get(id) {
                None => format!("{id} is not in {DOCUMENT}"),
                Some(requirement) if !requirement.is_must => format!("{id} is no MUST and needs no reason"),
                Some(_) if self.in_tests.contains(id) => {
                    format!("{id} is cited by a test and needs no reason")
                }
                Some(_) => continue,
            };
            errors.push(format!("{EXCEPTIONS}: {complaint}"));
        }
        for requirement in self.missing(&self.in_tests) {
            if self.exception(&requirement.id).is_none() {
                errors.push(format!("no test cites {requirement}"));
            }
        }
        errors
    }

    fn print_verdict(&self) -> Result<(), String> {
        let errors = self.errors();
        for error in &errors {
            println!("error: {error}");
        }
        for requirement in self.missing(&self.in_code) {
            if self.exception(&requirement.id).is_none() {
                println!("note: no code cites {}", requirement.id);
            }
        }
        println!("{}", self.summary());
        if errors.is_empty() { Ok(()) } else { Err(format!("spec: {} errors", errors.len())) }
    }

    fn summary(&self) -> String {
        let musts = self.requirements.values().filter(|requirement| requirement.is_must).count();
        let excused = self.exceptions.iter().map(|exception| exception.ids.len()).sum::<usize>();
        format!(
            "spec: {} requirements, {musts} of them MUST; {} cited by tests, {} by code, {excused} excused",
            self.requirements.len(),
            musts - self.missing(&self.in_tests).len(),
            musts - self.missing(&self.in_code).len(),
        )
    }

    fn print_list(&self) {
        let mut requirements: Vec<&Requirement> = self.requirements.values().collect();
        requirements.sort_by_key(|requirement| requirement.line);
        for requirement in requirements {
            println!("{requirement}");
            for citation in self.citations.iter().filter(|citation| citation.id == requirement.id) {
                let kind = if citation.is_test { "test" } else { "code" };
                println!("    {kind} {}:{}", citation.path, citation.line);
            }
            if let Some(exception) = self.exception(&requirement.id) {
                println!("    excused: {}", exception.reason);
            }
        }
        println!("{}", self.summary());
    }

    fn print_uncited(&self) {
        for (kind, cited) in [("test", &self.in_tests), ("code", &self.in_code)] {
            println!("MUSTs that no {kind} cites:");
            for requirement in self.missing(cited) {
                let reason = self
                    .exception(&requirement.id)
                    .map(|exception| format!(" (excused: {})", exception.reason));
                println!("  {requirement}{}", reason.unwrap_or_default());
            }
        }
        println!("{}", self.summary());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const SPEC: &str = "\
- **[CDP-HDR-1]** A sender MUST emit the header.
- **[CDP-HDR-2]** A sender MAY hum.
- **[CDP-HDR-3]** A receiver MUST NOT hum.
";

    fn errors(exceptions: &str, code: &str) -> Vec<String> {
        let files = [file("crates/wire/src/lib.rs", code)];
        let requirements = requirements::parse(SPEC).unwrap();
        let exceptions = exceptions::parse(exceptions).unwrap();
        Report::new(requirements, exceptions, citations::find(&files)).errors()
    }

    const EXCUSE: &str = "[[exception]]\nids = [\"CDP-HDR-3\"]\nreason = \"comes with humming\"\n";
    const TESTED: &str =
        "#[cfg(test)]\nmod tests {\n  /// [CDP-HDR-1] The header is emitted.\n  fn a() {}\n}\n";

    #[test]
    fn a_must_needs_a_test_or_a_reason() {
        let found = errors("", "");
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("CDP-HDR-1") && found[1].contains("CDP-HDR-3"));
        assert_eq!(errors(EXCUSE, TESTED), [""; 0]);
    }

    #[test]
    fn code_alone_does_not_satisfy_a_must() {
        assert!(errors(EXCUSE, "// [CDP-HDR-1] emitted here\n")[0].contains("CDP-HDR-1"));
    }

    #[test]
    fn a_citation_of_an_unknown_id_is_an_error() {
        let code = format!("{TESTED}// [CDP-HDR-9] nothing\n");
        assert!(errors(EXCUSE, &code)[0].contains("CDP-HDR-9 is not in"));
    }

    #[test]
    fn an_excuse_goes_stale() {
        let tested = TESTED.replace("[CDP-HDR-1]", "[CDP-HDR-1] [CDP-HDR-3]");
        assert!(errors(EXCUSE, &tested)[0].contains("cited by a test"));
        let may = EXCUSE.replace("\"CDP-HDR-3\"", "\"CDP-HDR-3\", \"CDP-HDR-2\", \"CDP-HDR-8\"");
        let found = errors(&may, TESTED);
        assert!(found[0].contains("CDP-HDR-2 is no MUST") && found[1].contains("CDP-HDR-8 is not in"));
    }
}
