use clap::Parser;

use super::*;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: ServeArgs,
}

fn flags(flags: &[&str]) -> Result<Settings, clap::Error> {
    let program = std::iter::once(&"reprise").chain(flags);
    Program::try_parse_from(program).map(|program| program.args.settings)
}

fn file(text: &str) -> Result<Settings, String> {
    parse(text)
}

const EXAMPLE: &str = include_str!("../../../reprise.example.toml");

/// The example with its commented-out settings in force.
fn example_in_force() -> String {
    let in_force = |line: &'static str| match line.strip_prefix("#") {
        Some(setting) if !setting.starts_with([' ', '#']) && !setting.is_empty() => setting,
        _ => line,
    };
    EXAMPLE.lines().map(in_force).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_file_changes_nothing_as_it_is() {
    let settings = file(EXAMPLE).unwrap();
    assert_eq!(Config::new(settings).unwrap(), Config::default());
}

#[test]
fn the_example_file_shows_every_setting_with_its_default() {
    let text = example_in_force();
    let mut settings = file(&text).unwrap();
    // Those have no default; what the file shows is an example.
    assert!(settings.database_url.take().is_some());
    assert!(settings.policy.repeat_within.take().is_some());
    assert!(settings.prepared.take().is_some());
    let shown = format!("{settings:?}");
    let unset = shown.matches(": None").count();
    assert_eq!(unset, 3, "a setting is missing in the example: {shown}");
    let mut expected = Config::default();
    expected.policy.rules = Config::new(settings.clone()).unwrap().policy.rules;
    assert_eq!(Config::new(settings).unwrap(), expected);
}

#[test]
fn a_flag_beats_the_file_and_the_file_beats_the_default() {
    let from_file = file("writers = 3\npool_size = 9\n[policy]\nlease = \"5s\"").unwrap();
    let settings = flags(&["--writers", "2"]).unwrap().or(from_file);
    let config = Config::new(settings).unwrap();
    assert_eq!((config.writers, config.pool_size), (2, 9));
    assert_eq!(config.policy.lease, Duration::from_secs(5));
    assert_eq!(config.drain, Config::default().drain);
}

#[test]
fn a_server_may_leave_the_work_behind_the_calls_to_others() {
    assert!(Config::default().upkeep);
    for (settings, upkeep) in [
        (file("upkeep = false").unwrap(), false),
        (flags(&["--upkeep=false"]).unwrap(), false),
        (
            flags(&["--upkeep"])
                .unwrap()
                .or(file("upkeep = false").unwrap()),
            true,
        ),
    ] {
        assert_eq!(Config::new(settings).unwrap().upkeep, upkeep);
    }
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let error = file("listen = \"127.0.0.1:1\"\n[policy]\nleese = \"5s\"").unwrap_err();
    assert!(
        error.starts_with("line 3: ") && error.contains("leese"),
        "{error}"
    );
}

#[test]
fn a_setting_out_of_range_is_named_with_what_is_allowed() {
    for (text, field) in [
        ("pool_size = 1", "pool_size"),
        ("writers = 65", "writers"),
        ("drain = \"6m\"", "drain"),
        ("deadline_max = \"11m\"", "deadline_max"),
        ("deadline_default = \"2m\"", "deadline_default"),
        ("connection_age = \"2d\"", "connection_age"),
        ("connections_max = 0", "connections_max"),
        ("streams_max = 0", "streams_max"),
        ("calls_max = 0", "calls_max"),
        ("waiters_per_record_max = 1000001", "waiters_per_record_max"),
        ("waiters_per_tenant_max = 1000001", "waiters_per_tenant_max"),
        ("log_level = \"lod=lod=lod\"", "log_level"),
        ("[policy]\nlease = \"16m\"", "policy.lease"),
        ("[policy]\non_lapse = \"take_over\"", "policy.repeat_within"),
        (
            "[policy]\nfingerprint_rules = [{ ignore = [\"x\"] }]",
            "policy.fingerprint_rules[0]",
        ),
    ] {
        let error = Config::new(file(text).unwrap()).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(!error.allowed.is_empty());
    }
}

#[test]
fn other_than_loopback_addresses_need_a_word() {
    let open = flags(&["--listen", "0.0.0.0:7077"]).unwrap();
    let error = Config::new(open).unwrap_err();
    assert_eq!(error.field, "listen");
    assert!(error.allowed.contains("--insecure-listen-any"), "{error}");
    for listen in [
        &["--listen", "0.0.0.0:7077", "--insecure-listen-any"][..],
        &["--listen", "[::1]:0"],
    ] {
        assert!(Config::new(flags(listen).unwrap()).is_ok(), "{listen:?}");
    }
}

#[test]
fn a_password_is_shown_nowhere() {
    let url = "postgres://app:open-sesame@db.example/reprise";
    let settings = flags(&["--database-url", url]).unwrap();
    let config = Config::new(settings.clone()).unwrap();
    let shown = format!("{settings:?} {config:?}");
    assert!(!shown.contains("open-sesame"), "{shown}");
    assert!(shown.contains("database reprise on db.example"), "{shown}");

    let broken = "postgres://app:open-sesame@db.example:no-port/reprise";
    let error = broken.parse::<DatabaseUrl>().unwrap_err().to_string();
    assert!(!error.contains("open-sesame"), "{error}");
    let error = flags(&["--database-url", broken]).unwrap_err().to_string();
    assert!(error.contains("--database-url"), "{error}");
    assert!(!error.contains("open-sesame"), "{error}");
    let error = file(&format!("database_url = \"{broken}\"")).unwrap_err();
    assert!(!error.contains("open-sesame"), "{error}");
}

#[test]
fn a_password_behind_an_at_sign_or_a_wrong_key_is_not_shown() {
    for url in [
        "postgres://app:open@sesame@db.example/reprise",
        "postgres://app:54/open@sesame@db.example/reprise",
    ] {
        let place = url.parse::<DatabaseUrl>().unwrap().place();
        assert!(place.contains("db.example"), "{place}");
        assert!(
            !place.contains("open") && !place.contains("sesame"),
            "{place}"
        );
    }
    let url = "postgres://app:open-sesame, expected @db.example/reprise";
    for key in [
        "pool_size",
        "migrate",
        "drain",
        "listen",
        "log_format",
        "policy",
        "database_url",
    ] {
        for text in [format!("{key} = \"{url}\""), format!("{key} = [\"{url}\"]")] {
            let Err(error) = file(&text) else {
                assert_eq!(key, "database_url");
                continue;
            };
            assert!(error.starts_with("line 1: "), "{error}");
            assert!(!error.contains("open-sesame"), "{error}");
        }
    }
    let error = file("pool_size = \"many\"").unwrap_err();
    assert!(error.contains("expected usize"), "{error}");
}

#[test]
fn an_empty_database_is_none() {
    let unset = || flags(&["--database-url", ""]).unwrap();
    let config = Config::new(unset().or(Settings::default())).unwrap();
    assert_eq!(config.database_url, None);
    let from_file = file("database_url = \"postgres://db.example/reprise\"").unwrap();
    let config = Config::new(unset().or(from_file)).unwrap();
    assert!(config.database_url.is_some());
    let from_file = file("database_url = \"\"").unwrap();
    let config = Config::new(Settings::default().or(from_file)).unwrap();
    assert_eq!(config.database_url, None);
}

#[test]
fn switches_take_a_value_so_that_a_flag_can_undo_the_file() {
    for (given, expected) in [
        (&["--migrate"][..], Some(true)),
        (&["--migrate=false"], Some(false)),
        (&[], None),
    ] {
        assert_eq!(flags(given).unwrap().migrate, expected, "{given:?}");
    }
}
