//! Rust source as lines whose code, comment and literal parts are told apart, and whose test regions are known.
//!
//! A small lexer, not a parser: it follows comments (nested), strings (raw and byte too) and character literals, and
//! counts braces to find where an item under `#[cfg(test)]` ends.

/// One line of Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Line number from 1.
    pub(crate) number: usize,
    /// The code, literals emptied and comments removed.
    pub(crate) code: String,
    /// The text of comments, without the code.
    pub(crate) comment: String,
    /// The text of string literals.
    pub(crate) literal: String,
    /// Whether the line lies in an item under `cfg(test)`.
    pub(crate) is_test: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: u32 },
    Text { escapes: bool, hashes: usize },
}

/// The lines of `text`.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut lines = split(text);
    mark_tests(&mut lines);
    lines
}

fn split(text: &str) -> Vec<Line> {
    let mut state = State::Code;
    let mut result = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let mut line = Line {
            number: index + 1,
            code: String::new(),
            comment: String::new(),
            literal: String::new(),
            is_test: false,
        };
        if state == State::LineComment {
            state = State::Code;
        }
        let characters: Vec<char> = raw.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            (state, at) = step(state, &characters, at, &mut line);
        }
        result.push(line);
    }
    result
}

/// Takes one token's worth of characters at `at`; gives the new state and position.
fn step(state: State, text: &[char], at: usize, line: &mut Line) -> (State, usize) {
    let rest = &text[at..];
    match state {
        State::LineComment => {
            line.comment.extend(rest);
            (State::LineComment, text.len())
        }
        State::BlockComment { depth } => step_in_block(depth, rest, at, line),
        State::Text { escapes, hashes } => step_in_text(escapes, hashes, rest, at, line),
        State::Code => step_in_code(rest, at, line),
    }
}

fn step_in_block(depth: u32, rest: &[char], at: usize, line: &mut Line) -> (State, usize) {
    match rest {
        ['/', '*', ..] => (State::BlockComment { depth: depth + 1 }, at + 2),
        ['*', '/', ..] if depth == 1 => (State::Code, at + 2),
        ['*', '/', ..] => (State::BlockComment { depth: depth - 1 }, at + 2),
        _ => {
            line.comment.push(rest[0]);
            (State::BlockComment { depth }, at + 1)
        }
    }
}

fn step_in_text(escapes: bool, hashes: usize, rest: &[char], at: usize, line: &mut Line) -> (State, usize) {
    let closes = rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
    if closes {
        line.code.push('"');
        return (State::Code, at + 1 + hashes);
    }
    let taken = if escapes && rest[0] == '\\' { 2 } else { 1 };
    line.literal.extend(rest.iter().take(taken));
    (State::Text { escapes, hashes }, at + taken)
}

fn step_in_code(rest: &[char], at: usize, line: &mut Line) -> (State, usize) {
    let after_word = line.code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    match rest {
        ['/', '/', ..] => (State::LineComment, at),
        ['/', '*', ..] => (State::BlockComment { depth: 1 }, at + 2),
        ['r', '#' | '"', ..] if !after_word || line.code.ends_with('b') || line.code.ends_with('c') => {
            let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
            if rest.get(1 + hashes) == Some(&'"') {
                line.code.push_str("r\"");
                return (State::Text { escapes: false, hashes }, at + 2 + hashes);
            }
            line.code.push('r');
            (State::Code, at + 1)
        }
        ['"', ..] => {
            line.code.push('"');
            (State::Text { escapes: true, hashes: 0 }, at + 1)
        }
        // A character literal, not a lifetime: 'x' or '\x'.
        ['\'', '\\', ..] => {
            let end = rest[2..].iter().skip(1).position(|c| *c == '\'').map_or(rest.len(), |p| p + 4);
            line.code.push_str("''");
            (State::Code, at + end)
        }
        ['\'', _, '\'', ..] => {
            line.code.push_str("''");
            (State::Code, at + 3)
        }
        _ => {
            line.code.push(rest[0]);
            (State::Code, at + 1)
        }
    }
}

/// Marks the item that follows each `#[cfg(… test …)]`, up to its closing brace or semicolon.
fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        if opens_test(&lines[at].code) {
            let end = item_end(lines, at);
            for line in &mut lines[at..=end] {
                line.is_test = true;
            }
            at = end;
        }
        at += 1;
    }
}

fn opens_test(code: &str) -> bool {
    let Some(attribute) = code.trim_start().strip_prefix("#[cfg(") else {
        return code.trim_start().starts_with("#[test]");
    };
    let words = attribute.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.into_iter().any(|word| word == "test") && !attribute.contains("not(test")
}

fn item_end(lines: &[Line], start: usize) -> usize {
    block_end(lines, start).unwrap_or(lines.len() - 1)
}

/// The index of the line on which the item that begins at line `start` ends, with its brace or its semicolon.
pub(crate) fn block_end(lines: &[Line], start: usize) -> Option<usize> {
    let (mut braces, mut others) = (0_u32, 0_u32);
    for (index, line) in lines.iter().enumerate().skip(start) {
        for character in line.code.chars() {
            match character {
                '{' => braces += 1,
                '}' if braces <= 1 => return Some(index),
                '}' => braces -= 1,
                '(' | '[' => others += 1,
                ')' | ']' => others = others.saturating_sub(1),
                // A semicolon in brackets, as in [u8; 4], ends nothing.
                ';' if braces == 0 && others == 0 => return Some(index),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> Line {
        lines(text).remove(0)
    }

    #[test]
    fn code_comment_and_literal_are_told_apart() {
        let line = only(r#"let a = "x // y"; // note "z""#);
        assert_eq!(line.code, r#"let a = ""; "#);
        assert_eq!(line.literal, "x // y");
        assert_eq!(line.comment, r#"// note "z""#);
    }

    #[test]
    fn escapes_raw_strings_and_characters_do_not_confuse() {
        assert_eq!(only(r#"f("a\"b", '"', '\'', 1) // c"#).code, r#"f("", '', '', 1) "#);
        assert_eq!(only(r###"f(r#"a " b"#, br"\") // c"###).code, r#"f(r"", br"") "#);
        assert_eq!(only("fn f<'a>(x: &'a str) {} // c").code, "fn f<'a>(x: &'a str) {} ");
    }

    #[test]
    fn block_comments_nest_and_span_lines() {
        let found = lines("a /* b /* c */\nd */ e");
        assert_eq!((found[0].code.as_str(), found[1].code.as_str()), ("a ", " e"));
    }

    #[test]
    fn a_test_module_ends_at_its_brace() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  const B: &str = \"}\";\n  fn b() {}\n}\nfn c() {}\n";
        let marks: Vec<bool> = lines(text).iter().map(|line| line.is_test).collect();
        assert_eq!(marks, [false, true, true, true, true, true, false]);
    }

    #[test]
    fn a_test_file_named_by_a_declaration_ends_at_its_semicolon() {
        let text = "#[cfg(all(test, loom))]\nmod loom_tests;\nfn c() {}\n#[cfg(not(test))]\nfn d() {}\n";
        let marks: Vec<bool> = lines(text).iter().map(|line| line.is_test).collect();
        assert_eq!(marks, [true, true, false, false, false]);
    }
}
