//! The normalisation of command options for deny and ask rules.

use super::shell::{GIT_GLOBAL_VALUES, Word};

/// Short options and the long ones that mean the same, per program: what rules are written about.
const SAME: &[(&str, &str)] = &[
    ("rm", "r=R=--recursive f=--force i=--interactive d=--dir"),
    ("cp", "r=R=--recursive f=--force a=--archive"),
    ("chmod", "R=--recursive"),
    ("chown", "R=--recursive"),
    (
        "git",
        "f=--force=--force-with-lease d=--delete D=--delete n=--no-verify q=--quiet a=--all m=--message",
    ),
    (
        "curl",
        "o=--output k=--insecure d=--data X=--request T=--upload-file F=--form",
    ),
    ("grep", "r=R=--recursive"),
    ("docker", "f=--force v=--volume"),
    ("npm", "g=--global f=--force"),
];

/// Returns `true` if the flags `given` hold `wanted`, alone, among others or under its other name.
pub(super) fn has_flag(program: &str, given: &[String], wanted: &str) -> bool {
    let groups = SAME.iter().find(|(name, _)| *name == program);
    let groups = groups.map_or("", |(_, groups)| *groups);
    if wanted.starts_with("--") {
        let aliases = group_of(groups, wanted);
        return given.iter().any(|flag| is_long(flag, wanted, &aliases));
    }
    given.iter().any(|flag| flag == wanted)
        || wanted[1..].chars().all(|letter| {
            let aliases = group_of(groups, letter.encode_utf8(&mut [0; 4]));
            given.iter().any(|flag| has_letter(flag, letter, &aliases))
        })
}

/// The options that mean the same as `option`, itself among them; none when it stands alone.
fn group_of<'a>(groups: &'a str, option: &str) -> Vec<&'a str> {
    let mut groups = groups.split(' ').map(|group| group.split('='));
    let option_group = groups.find(|group| group.clone().any(|known| known == option));
    option_group.into_iter().flatten().collect()
}

fn is_long(flag: &str, wanted: &str, same: &[&str]) -> bool {
    let name = flag.split('=').next().unwrap_or_default();
    if !name.starts_with("--") {
        return has_short(flag, same);
    }
    let abbreviates = !wanted.contains('=') && name.len() > 3 && wanted.starts_with(name);
    flag == wanted || name == wanted || abbreviates || same.contains(&name)
}

fn has_letter(flag: &str, letter: char, same: &[&str]) -> bool {
    if !flag.starts_with("--") {
        return flag[1..].contains(letter) || has_short(flag, same);
    }
    let name = flag.split('=').next().unwrap_or_default();
    let mut long_options = same.iter().filter(|option| option.len() > 1);
    name.len() > 3 && long_options.any(|option| option.starts_with(name))
}

/// Returns `true` if one of the letters in `same` is among those of `flag`.
fn has_short(flag: &str, same: &[&str]) -> bool {
    let mut letters = same.iter().filter(|option| option.len() == 1);
    letters.any(|letter| flag[1..].contains(letter))
}

/// Options before the subcommand that take the next word as their value.
const GLOBAL_VALUES: &[(&str, &str)] = &[
    ("git", GIT_GLOBAL_VALUES),
    (
        "docker",
        "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey",
    ),
    (
        "podman",
        "--connection -c --url --root --runroot --log-level",
    ),
    (
        "kubectl",
        "-n --namespace --context --cluster --kubeconfig --user -s --server --token --as --as-group --request-timeout --cache-dir",
    ),
    (
        "npm",
        "--prefix -C --registry --userconfig --globalconfig --cache --loglevel -w --workspace",
    ),
    ("pnpm", "-C --dir --filter -F"),
    ("yarn", "--cwd"),
    ("cargo", "--config -Z -C --color --manifest-path"),
    ("make", "-C --directory -f --file -j"),
    ("systemctl", "-H --host -M --machine --root"),
    ("apt", "-o --option -c --config-file -t"),
    ("apt-get", "-o --option -c --config-file -t"),
    (
        "aws",
        "--profile --region --endpoint-url --output --ca-bundle",
    ),
    ("gcloud", "--project --account --configuration"),
    ("terraform", "-chdir"),
    ("helm", "-n --namespace --kube-context --kubeconfig"),
    ("pip", "--proxy --log --cache-dir --python"),
    ("go", "-C"),
    ("gh", "-R --repo"),
    ("ip", "-n --netns"),
    ("tmux", "-L -S -f -c"),
];

/// The words as given but for the program's directory, and without options before the subcommand.
pub(super) fn variants(argv: &[Word]) -> Vec<Vec<Word>> {
    let mut plain_argv = argv.to_vec();
    if let Some(name) = argv[0].basename() {
        plain_argv[0] = Word::from_text(name.clone());
        if let Some((_, values)) = GLOBAL_VALUES.iter().find(|(known, _)| *known == name) {
            let mut index = 1;
            while let Some(word) = plain_argv.get(index) {
                let prefix = word.literal_prefix();
                if !prefix.starts_with('-') {
                    break;
                }

                index += 1 + usize::from(values.split(' ').any(|known| known == prefix));
            }

            if index > 1 && index < plain_argv.len() {
                let mut short_argv = vec![plain_argv[0].clone()];
                short_argv.extend_from_slice(&plain_argv[index..]);
                return vec![plain_argv, short_argv];
            }
        }
    }

    vec![plain_argv]
}
