//! The shell analyser compared with shells: random scripts are run with stub programs that record
//! that they ran, and the programs that ran are compared with the decisions about the scripts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentcore::backend::Shell;
use agentcore::permission::{Behavior, PermissionRules};

/// The number of scripts for each shell, unless [`NUMBER`] sets another.
const SCRIPTS: usize = 250;
/// The environment variable that sets the number of scripts.
const NUMBER: &str = "AGENTCORE_BASH_DIFF";

/// The number of shells that run scripts concurrently.
const SHARDS: usize = 4;
/// The number of scripts that one process of a shell runs.
const BATCH: usize = 50;

/// A generator of pseudo-random numbers, which makes the same scripts in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

/// The stub programs, which record that they ran. Two of them have the names of programs that are
/// modeled and start no other program.
const STUBS: [&str; 4] = ["tty", "groups", "bad", "other"];
/// Real programs that scripts may use.
const TOOLS: [&str; 13] = [
    "env", "xargs", "nohup", "nice", "timeout", "sh", "bash", "cat", "find", "sed", "awk", "tar",
    "sort",
];
const ALLOWED: [&str; 31] = [
    "tty", "groups", "env", "xargs", "nohup", "nice", "timeout", "sh", "bash", "cat", "find",
    "sed", "awk", "tar", "sort", "rg", "echo", "true", ":", "[", "test", "printf", "command",
    "read", "export", "set", "cd", "exec", "eval", "wait", "declare",
];
/// Names of files in the folder of the scripts. Some programs take them for options.
const HOSTILE: [&str; 14] = [
    "-x",
    "-rf",
    "-Sbad",
    "-Ibad",
    "-e1ebad",
    "-exec",
    "--pre=bad",
    "--compress-program=bad",
    "--checkpoint=1",
    "--checkpoint-action=exec=bad",
    "--use-compress-program=bad",
    "a b",
    "bad",
    "x$(bad)",
];
/// A program that runs the command in its option `--pre`.
const RG: &str = "for word; do case $word in --) break;; --pre=*) \"${word#--pre=}\";; esac; done";

/// Returns a script from the grammar below.
fn script(dice: &mut Dice, depth: usize) -> String {
    let mut text = String::new();
    for at in 0..=dice.below(3) {
        if at > 0 {
            text.push_str(dice.pick(&["; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";"]));
        }
        text.push_str(&command(dice, depth));
    }
    text
}

fn command(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return simple(dice, 0);
    }

    let inner = depth - 1;
    match dice.below(29) {
        0 => format!("( {} )", script(dice, inner)),
        1 => format!("{{ {}; }}", script(dice, inner)),
        2 => format!(
            "if {}; then {}; fi",
            simple(dice, inner),
            script(dice, inner)
        ),
        3 => format!(
            "for i in 1 {}; do {}; done",
            word(dice, inner),
            script(dice, inner)
        ),
        4 => format!(
            "case a in {}) {};; esac",
            word(dice, inner),
            script(dice, inner)
        ),
        5 => format!(
            "f() {{ {}; }}; f {}",
            script(dice, inner),
            word(dice, inner)
        ),
        6 => format!("! {}", command(dice, inner)),
        7 => format!(
            "[[ {} == a ]] && {}",
            word(dice, inner),
            simple(dice, inner)
        ),
        8 => format!("x={}; {}", word(dice, inner), command(dice, inner)),
        9 => format!(
            "cat <<E\n{}\n{}\nE\n{}",
            word(dice, inner),
            line(dice, inner),
            simple(dice, inner)
        ),
        10 => format!(
            "cat <<'E'\n{}\nE\n{}",
            line(dice, inner),
            simple(dice, inner)
        ),
        11 => format!(
            "bash <<{}\n{}\nE\n",
            dice.pick(&["E", "'E'", "-E"]),
            script(dice, inner)
        ),
        12 => format!("time {}", command(dice, inner)),
        13 => format!(
            "(( {} )); {}",
            dice.pick(&["1", "x", "x+1", "$x", "a[0]"]),
            simple(dice, inner)
        ),
        14 => format!(
            "while {}; do {}; break; done",
            simple(dice, inner),
            script(dice, inner)
        ),
        15 => format!("coproc {}", simple(dice, inner)),
        16 => format!("echo 'a b' | {}", filter(dice)),
        17 => format!("{}; {}", filter(dice), command(dice, inner)),
        18 => format!("{}; {}", trick(dice), command(dice, inner)),
        19 => format!("{} {}", program_with_files(dice), files(dice)),
        _ => simple(dice, depth),
    }
}

fn simple(dice: &mut Dice, depth: usize) -> String {
    let mut text = String::new();
    if dice.below(10) == 0 {
        let _ = write!(
            text,
            "{}={} ",
            dice.pick(&["x", "LANG", "A", "y[0]"]),
            word(dice, depth)
        );
    }

    if dice.below(12) == 0 {
        let _ = write!(text, "{} ", redirection(dice, depth));
    }

    text.push_str(&program(dice, depth));
    for _ in 0..dice.below(3) {
        let _ = write!(
            text,
            "{}{}",
            dice.pick(&[" ", "  ", "\t", " \\\n "]),
            word(dice, depth)
        );
    }

    if dice.below(8) == 0 {
        let _ = write!(text, " {}", redirection(dice, depth));
    }

    if dice.below(14) == 0 {
        text.push_str(dice.pick(&[" # bad", " # '", " #`bad"]));
        text.push('\n');
        text.push_str(dice.pick(&["tty", "bad", ":"]));
    }

    text
}

/// Returns a program of sed or awk, made of its tokens in any order.
fn filter(dice: &mut Dice) -> String {
    const SED: &str = "p¦d¦s/a/b/¦s/a/bad/e¦1e bad¦e bad¦e¦a x¦i\\\nbad¦c x¦:a¦ba¦ta¦b¦;¦;¦\n¦\n¦}¦\
        {¦$!N¦1¦/a/¦!¦y/a/b/¦s/a/\n1e bad\n/¦q¦n¦ ¦#¦a\\¦\\¦s|a|b|g¦2,3";
    const AWK: &str = "print¦print $1¦\"a\"¦\"bad\"¦> \"f\"¦| \"bad\"¦; ¦; ¦}¦{¦{¦/a|b/¦/\"/¦\
        $1 > 2¦a || b¦system(\"bad\")¦#¦\n¦\"¦\\¦(¦)¦BEGIN¦{print | \"bad\"}¦printf \"%s\", ¦,¦\
        x = \"print\"¦ ¦{print}¦1";
    let (program, tokens) = match dice.below(2) {
        0 => (dice.pick(&["sed", "sed -n", "sed -E", "sed -e p -e"]), SED),
        _ => (dice.pick(&["awk", "awk -F:", "awk -v x=1"]), AWK),
    };

    let tokens: Vec<&str> = tokens.split('¦').collect();
    let mut text = String::new();
    for _ in 0..1 + dice.below(6) {
        text.push_str(dice.pick(&tokens));
    }

    format!("{program} '{text}'")
}

/// Returns a program that may read the name of a file as an option.
fn program_with_files<'a>(dice: &mut Dice) -> &'a str {
    dice.pick(&[
        "tar cf /dev/null",
        "tar -cf /dev/null a",
        "sed p",
        "sed -n",
        "awk 1",
        "sort",
        "sort -u",
        "rg",
        "rg a",
        "env",
        "env A=1",
        "xargs",
        "xargs tty",
        "find",
        "cat",
        "tty",
        "nice",
        "timeout 1",
        "echo a | xargs -n 1",
        "set --",
        "for i in * -*; do tty $i; done; tty",
        "for i in *; do sed p $i; done; tty",
        "for i in *; do rg a \"$i\"; done; tty",
        "find . -maxdepth 1 -exec rg a {} +; tty",
        "find . -maxdepth 1 | xargs rg a; tty",
    ])
}

/// Words that the shell expands to names of files.
fn files<'a>(dice: &mut Dice) -> &'a str {
    dice.pick(&[
        "*", "-*", "-- *", "./*", "--*", "?b*", "[-]*", "[a-z]*", "* a", "-S*", "'*'", "\"$x\"*",
        "$x*", "x*",
    ])
}

/// Returns a command that an earlier version decided wrongly, or one like it.
fn trick(dice: &mut Dice) -> String {
    dice.pick(&[
        "[ $? -eq 0 ]",
        "wait $!",
        "x=$((x+1))",
        "x='a[$(bad)]'",
        "x='-v a[$(bad)]'",
        "x='-v y[$(bad)] -o a'",
        "x=bad",
        "[ $x ]",
        "test $x = a",
        "[ $x -eq 1 ]",
        "[[ $x -eq 1 ]]",
        "echo $((x))",
        "read x <<< 'a[$(bad)]'",
        "declare -i x",
        "eval -- bad",
        "tar cIf bad f bin",
        "tar cf f --checkpoint=1 --checkpoint-action=exec=bad .",
        "set -- bad; $1",
        "set -- x 'a[$(bad)]'; [ $1 $2 ]",
        "for x in 'a[$(bad)]'; do tty; done",
        "echo $(<f)",
        "x=$(echo 'a[$(bad)]')",
        "f() { [ $1 ]; }; f '-v a[$(bad)]'",
        "cat < $x",
        "tty $'\\'; bad #'",
        "tty \"$'\\\"; bad \"'\"",
        "((tty); bad)",
        "((bad))",
        "function f { bad; }; f",
        "function f() { bad; }; f",
        "x=(bad); tty",
        "x+=bad; tty",
        "[[ a == a || bad ]]",
        "[[ a < bad ]]",
        "select i in bad; do tty; done",
        "tty ${x:0:1}",
        "tty ~+ [^a] $10",
        "time -p tty",
        "time -o f bad",
        "local x=bad",
        "y='1 x=bad'; export z=$y; $x",
        "case a in a) tty;& b) bad;; esac",
        "tty;bad&>f",
        "echo 'b\\141d' | sh",
        "sh -c \"tty $'\\''; bad #'\"",
        "{tty,bad}",
        "tty `echo '\\`bad\\`'`",
        "tty \"${x:-\"}\"; bad; \"}\"",
        "tty \"${x:-'}'}\"",
        "tty <<E$(bad)\nE",
        "f()\n(bad); f",
    ])
    .to_owned()
}

fn redirection(dice: &mut Dice, depth: usize) -> String {
    let operator = dice.pick(&[
        "> f",
        "2>&1",
        ">& f",
        "&> f",
        "< /dev/null",
        "2>/dev/null",
        "3> f",
        "10> f",
        "{fd}> f",
        "&>> f",
        ">| f",
        "<<< ",
        "> ",
    ]);
    match operator {
        "<<< " | "> " => format!(
            "{operator}{}",
            dice.pick(&["f", "\"$(tty)\"", "<(bad)", "$(bad)", "'f'"])
        ),
        "< /dev/null" if depth > 0 => format!("< <({})", simple(dice, depth - 1)),
        plain => plain.to_owned(),
    }
}

/// Returns the words that name a program: a stub, perhaps quoted in an unusual way or after a
/// wrapper.
fn program(dice: &mut Dice, depth: usize) -> String {
    let stub = dice.pick(&["tty", "tty", "tty", "groups", "groups", "bad", "other"]);
    match dice.below(30) {
        0 => format!("'{stub}'"),
        1 => format!("\\{stub}"),
        2 => format!("{}\\\n{}", &stub[..1], &stub[1..]),
        3 => format!("$'{stub}'"),
        4 => format!("{}\"{}\"", &stub[..1], &stub[1..]),
        5 => format!("env {stub}"),
        6 => format!("env A=1 {stub}"),
        7 => format!("timeout 1 {stub}"),
        8 => format!("nice -n 1 {stub}"),
        9 => format!("command {stub}"),
        10 => format!("exec {stub}"),
        11 => format!("echo a | xargs {stub}"),
        12 => format!("eval {stub}"),
        13 => format!("bash -c '{stub}'"),
        14 => format!("sh -c \"{stub} x\""),
        15 => format!("find . -maxdepth 0 -exec {stub} {{}} \\;"),
        16 => format!("{{{stub},x}}"),
        17 => dice
            .pick(&["$x", "\"$x\"", "${x:-bad}", "$(echo bad)", "`echo bad`"])
            .to_owned(),
        18 if depth > 0 => format!("echo {}", word(dice, depth - 1)),
        19 => dice
            .pick(&[
                "true",
                ":",
                "echo a",
                "echo",
                "printf %s a",
                "[ a = a ]",
                "test a",
            ])
            .to_owned(),
        20 => format!("echo {stub} | bash"),
        21 => format!("bash <<< {stub}"),
        22 => format!("env -S '{stub} a'"),
        23 => format!("$\"{stub}\""),
        _ => stub.to_owned(),
    }
}

fn word(dice: &mut Dice, depth: usize) -> String {
    if depth > 0 && dice.below(3) == 0 {
        let inner = script(dice, depth - 1);
        return match dice.below(12) {
            0 => format!("$({inner})"),
            1 => format!("\"$({inner})\""),
            2 if !inner.contains(['`', '\\']) => format!("`{inner}`"),
            3 => format!("<({inner})"),
            4 => format!("${{x:-$({inner})}}"),
            5 => format!("\"${{x:-$({inner})}}\""),
            6 => format!("'{}'", inner.replace('\'', "")),
            7 => format!("$(( $({inner}) + 1 ))"),
            8 => format!("${{x/a/$({inner})}}"),
            9 => format!("${{y[$({inner})]}}"),
            10 => format!("\"a $({inner}) 'b'\""),
            _ => format!("\\$({})", "a"),
        };
    }

    dice.pick(&[
        "a",
        "b",
        "'a b'",
        "\"a\"",
        "a\\ b",
        "$x",
        "\"$x\"",
        "${x}",
        "*",
        "a{b,c}",
        "~",
        "-n",
        "--",
        "bad",
        "'$(bad)'",
        "\\`bad\\`",
        "\"\\$(bad)\"",
        "a#b",
        "\"#\"",
        "$'a\\'b'",
        "\"it's\"",
        "'\"'",
        "a=b",
        "${x%a}",
        "${#x}",
        "$((1+2))",
        "\"a;bad\"",
        "';bad'",
        "a\\;bad",
        "!",
        "if",
        "}",
        "]]",
        "[a",
        "[ab]",
        "$#",
        "$?",
        "$",
        "\"$\"",
        "${x:=bad}",
        "{a",
        "a}",
        "\"${x:-'}\"",
        "\"${x#'a'}\"",
        "\"${x:-\"b\"}\"",
        "$\"a\"",
        "$'\\x61'",
        "\"`tty`\"",
        "${x:-`tty`}",
        "$[1]",
        "'#' ",
        "\\",
    ])
    .to_owned()
}

fn line(dice: &mut Dice, depth: usize) -> String {
    match dice.below(4) {
        0 => "bad".to_owned(),
        1 => "\\$(bad) `tty`".to_owned(),
        2 => "it's \"a\"".to_owned(),
        _ => format!("$({})", simple(dice, depth)),
    }
}

/// Returns tokens in any order, of which few are a valid script.
fn soup(dice: &mut Dice) -> String {
    const TOKENS: [&str; 62] = [
        "tty",
        "groups",
        "bad",
        "other",
        " ",
        " ",
        " ",
        " ",
        " ",
        "\n",
        ";",
        "&",
        "|",
        "&&",
        "||",
        "(",
        ")",
        "{",
        "}",
        "'",
        "\"",
        "`",
        "$(",
        "${",
        "$((",
        "))",
        "$x",
        "x",
        "=",
        "<",
        ">",
        "<<E",
        "\nE\n",
        "<<<",
        "\\",
        "#",
        "!",
        "if ",
        "; then ",
        "; fi",
        "for i in a",
        "; do ",
        "; done",
        "case a in ",
        ";;",
        " esac",
        "[[ ",
        " ]]",
        "a",
        "*",
        "~",
        "-c",
        "bash",
        "env ",
        "eval ",
        "function f ",
        "()",
        "\\\n",
        "$'",
        "[",
        "]",
        "1",
    ];
    let mut text = String::new();
    for _ in 0..3 + dice.below(14) {
        text.push_str(TOKENS[dice.below(TOKENS.len())]);
    }

    text
}

struct Stage {
    root: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // An error only leaves the directory behind.
        let _removed = fs::remove_dir_all(&self.root);
    }
}

impl Stage {
    fn set(stub_shell: &Path, shell: &str) -> Self {
        let name = format!("agentcore-{shell}-diff-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for directory in ["bin", "scripts", "logs", "work"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }

        for stub in STUBS {
            let path = root.join("bin").join(stub);
            let text = format!(
                "#!{}\necho \"${{0##*/}}\" >> \"$STAGE_LOG\"\n",
                stub_shell.display()
            );
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        for name in HOSTILE {
            fs::write(root.join("work").join(name), "a\n").unwrap();
        }

        let path = root.join("bin/rg");
        fs::write(&path, format!("#!{}\n{RG}\n", stub_shell.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        for tool in TOOLS {
            if let Some(real) = find_program(tool) {
                symlink(real, root.join("bin").join(tool)).unwrap();
            }
        }

        Self { root }
    }

    /// Runs each script in its own subshell of `shell`, which is a command with options. Returns
    /// the stubs that ran in each.
    fn run(&self, shell: &str, scripts: &[String]) -> Vec<BTreeSet<String>> {
        let numbers: Vec<usize> = (0..scripts.len()).collect();
        let shards = numbers.chunks(scripts.len().div_ceil(SHARDS));
        std::thread::scope(|scope| {
            for (shard, numbers) in shards.enumerate() {
                scope.spawn(move || {
                    for numbers in numbers.chunks(BATCH) {
                        self.run_batch(shard, shell, scripts, numbers);
                    }
                });
            }
        });

        let logs = numbers.iter().map(|number| {
            let log = fs::read_to_string(self.root.join(format!("logs/{number}")));
            log.map_or_else(
                |_| BTreeSet::new(),
                |log| log.lines().map(str::to_owned).collect(),
            )
        });
        logs.collect()
    }

    /// Runs scripts one after the other in one shell. The scripts after one that takes too long, or
    /// that ends the shell, run in another shell.
    fn run_batch(&self, shard: usize, shell: &str, scripts: &[String], numbers: &[usize]) {
        let root = self.root.display();
        let mut left = numbers;
        while !left.is_empty() {
            let mut text = String::new();
            for number in left {
                let script = scripts[*number].replace('\'', "'\\''");
                let _ = writeln!(
                    text,
                    "echo {number} > {root}/at.{shard}\nexport STAGE_LOG={root}/logs/{number}\n\
                     (ulimit -t 2 -f 256; eval '{script}') </dev/null >/dev/null 2>&1"
                );
            }

            let batch = self.root.join(format!("batch.{shard}"));
            fs::write(&batch, text).unwrap();
            let mut words = shell.split(' ').filter(|word| !word.is_empty());
            Command::new(find_program("timeout").unwrap())
                .args(["-k", "1", "10"])
                .args(&mut words)
                .arg(&batch)
                .env_clear()
                .env("PATH", self.root.join("bin"))
                .env("HOME", &self.root)
                .current_dir(self.root.join("work"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            let at = fs::read_to_string(self.root.join(format!("at.{shard}"))).unwrap();
            let at: usize = at.trim().parse().unwrap();
            let end = left.iter().position(|number| *number == at).unwrap();
            left = &left[end + 1..];
        }
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin", "/usr/local/bin"]
        .into_iter()
        .map(|directory| Path::new(directory).join(name))
        .find(|path| path.exists())
}

/// A shell that runs scripts.
struct TestedShell {
    name: &'static str,
    options: &'static str,
    shell: Shell,
}

const SHELLS: [TestedShell; 3] = [
    TestedShell {
        name: "bash",
        options: "--norc",
        shell: Shell::Bash,
    },
    TestedShell {
        name: "dash",
        options: "",
        shell: Shell::Posix,
    },
    TestedShell {
        name: "busybox",
        options: "ash",
        shell: Shell::Posix,
    },
];

#[test]
fn analyser_decides_about_every_program_that_a_shell_runs() {
    let (Some(bash), Some(_)) = (find_program("bash"), find_program("timeout")) else {
        eprintln!("skipped: there is no bash to compare with");
        return;
    };
    let stub_shell = find_program("dash").unwrap_or(bash);

    for shell in SHELLS {
        match find_program(shell.name) {
            Some(path) => compare(&stub_shell, &path, &shell),
            None => eprintln!("skipped: there is no {} to compare with", shell.name),
        }
    }
}

fn scripts(count: usize) -> Vec<String> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ count as u64);
    let scripts = (0..count).map(|at| match at % 5 {
        4 => soup(&mut dice),
        turn => script(&mut dice, turn.min(2)),
    });
    scripts.collect()
}

/// Runs scripts in one shell, and compares the stubs that ran with the decisions.
fn compare(stub_shell: &Path, path: &Path, tested: &TestedShell) {
    let count = std::env::var(NUMBER)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(SCRIPTS);
    let scripts = scripts(count);
    let stage = Stage::set(stub_shell, tested.name);
    let words = format!("{} {}", path.display(), tested.options);
    let ran = stage.run(&words, &scripts);

    let rules = || PermissionRules::new().shell(tested.shell);
    let mut narrow = rules().allow("Write(f)").unwrap();
    for program in ALLOWED {
        narrow = narrow.allow(&format!("Bash({program}:*)")).unwrap();
    }

    let broad = rules().allow("Bash").unwrap();
    let broad = broad.deny("Bash(bad:*)").unwrap();

    let mut failures = Vec::new();
    let (mut allowed, mut permitted, mut denied, mut bad_ran) = (0, 0, 0, 0);
    for (script, ran) in scripts.iter().zip(&ran) {
        let by_narrow = narrow.explain_command(script);
        let by_broad = broad.explain_command(script);
        allowed += usize::from(by_narrow.decision == Behavior::Allow);
        permitted += usize::from(by_broad.decision == Behavior::Allow);
        denied += usize::from(by_broad.decision == Behavior::Deny);
        bad_ran += usize::from(ran.contains("bad"));
        let strays = ran.iter().any(|name| name != "tty" && name != "groups");
        if by_narrow.decision == Behavior::Allow && strays {
            failures.push(format!("allowed, but {ran:?} ran: {script:?}"));
        }

        if by_broad.decision == Behavior::Allow && ran.contains("bad") {
            failures.push(format!("not denied, but {ran:?} ran: {script:?}"));
        }
    }

    let name = tested.name;
    println!(
        "{count} scripts: {allowed} allowed by narrow rules, {permitted} by a broad one, {denied} denied; \
         {name} ran the denied program in {bad_ran}"
    );
    assert!(
        failures.is_empty(),
        "{} of {count} in {name}:\n{}",
        failures.len(),
        failures.join("\n")
    );

    // Without enough scripts of each kind, the comparison has no meaning.
    assert!(allowed > count / 80, "{allowed} of {count} were allowed");
    assert!(
        permitted > count / 20,
        "{permitted} of {count} were permitted"
    );
    assert!(
        denied > count / 10 && bad_ran > count / 20,
        "{denied} denied, {bad_ran} ran"
    );
}
