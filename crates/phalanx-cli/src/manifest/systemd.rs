//! systemd: a template unit, and an environment file with the `TF_CONFIG` of each task.

use super::{ManifestArgs, Written};

pub(super) fn files(args: &ManifestArgs) -> Vec<Written> {
    let name = &args.name;
    let program = match args.words() {
        [] => "/usr/local/bin/phalanx".to_owned(),
        words => words.iter().map(|word| word_of_unit(word)).collect::<Vec<_>>().join(" "),
    };
    let unit = format!(
        "# Installed as /etc/systemd/system/{name}@.service; each task as {name}@worker-0 and so on:\n\
         #   systemctl start {name}@ps-0 {name}@worker-0 {name}@chief-0\n\
         # The token is PHALANX_TOKEN=… in /etc/{name}/token.env, for root to read only.\n\
         [Unit]\nDescription=Phalanx task %i of {name}\nAfter=network-online.target\nWants=network-online.target\n\
         StartLimitIntervalSec=600\nStartLimitBurst=5\n\n[Service]\nType=exec\nEnvironmentFile=/etc/{name}/%i.env\n\
         EnvironmentFile=/etc/{name}/token.env\nExecStart={program}\nRestart=on-failure\nRestartSec=1\n\
         # A restart would not help: a user's error or a wrong configuration.\nRestartPreventExitStatus=1 2\n\
         # After SIGTERM a task saves and ends with 143.\nSuccessExitStatus=143\nKillSignal=SIGTERM\nTimeoutStopSec=30\nLimitNOFILE=65536\n\
         DynamicUser=yes\nStateDirectory={name}\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n\
         PrivateDevices=yes\nProtectKernelTunables=yes\nProtectControlGroups=yes\nRestrictSUIDSGID=yes\n\
         RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\nReadWritePaths=-{}\n\n[Install]\nWantedBy=multi-user.target\n",
        args.model_dir
    );
    let mut files = vec![Written { name: format!("{name}@.service"), text: unit }];
    // For one machine; with several, change the addresses.
    let mut port = args.port;
    let mut ports = std::collections::BTreeMap::new();
    for (role, count) in args.roles() {
        for index in 0..count {
            ports.insert((role, index), port);
            port += 1;
        }
    }
    let cluster = args.cluster(|role, index| format!("127.0.0.1:{}", ports.get(&(role, index)).copied().unwrap_or(0)));
    for (role, count) in args.roles() {
        for index in 0..count {
            let config = format!("{{\"cluster\":{cluster},\"task\":{{\"type\":\"{role}\",\"index\":{index}}}}}");
            files.push(Written { name: format!("{role}-{index}.env"), text: format!("TF_CONFIG='{config}'\n") });
        }
    }
    files
}

/// Quotes a word for a unit file.
fn word_of_unit(word: &str) -> String {
    let word = word.replace('%', "%%").replace('$', "$$");
    let harmless = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@+%$".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word;
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
