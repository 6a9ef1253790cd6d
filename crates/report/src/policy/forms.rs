//! The forms: a command line of numactl, OCI runtimes, Kubernetes, Slurm, systemd.
//!
//! Each says what it is of and what it gains in the comments that the form has, and what the form itself cannot say.

use super::{Choice, Policy, nodes_of};
use nearfar_figures::{escape, shell};
use nearfar_machine::cpulist::CpuList;
use serde_json::{Value, json};

/// Who keeps the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of numactl.
    Numactl,
    /// A part of an OCI runtime's config.json.
    Oci,
    /// A pod, and the kubelet's configuration that it needs.
    Kubernetes,
    /// A batch script.
    Slurm,
    /// A drop-in of a service.
    Systemd,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 5] = [Form::Numactl, Form::Oci, Form::Kubernetes, Form::Slurm, Form::Systemd];

    /// Whether it can have this policy: itself, or through numactl in the command that it starts.
    pub fn has(self, policy: &Policy) -> bool {
        // systemd's NUMAPolicy= takes default, preferred, bind, interleave and local (systemd.exec(5)), and a drop-in
        // does not know the service's command.
        !matches!((self, policy), (Form::Systemd, Policy::WeightedInterleave(_) | Policy::Weights(_)))
    }
}

/// What is known beside the prediction.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The program and its arguments; empty if it was not started by the recorder.
    pub command: Vec<String>,
    /// The machine that the prediction is for.
    pub machine: String,
    /// Threads of the program.
    pub threads: usize,
    /// Most memory of one of its processes, bytes; `None` if unknown.
    pub process_bytes: Option<u64>,
    /// Cpus of the one node where the policy is of one and they are known.
    pub cpus: Option<CpuList>,
    /// Whether the machine has one hardware thread per core in use.
    pub single_threaded_cores: bool,
}

/// The text of a form, which ends with a newline.
pub fn text(form: Form, choice: &Choice, known: &Known) -> String {
    match form {
        Form::Numactl => numactl(choice, known),
        Form::Oci => oci(choice, known),
        Form::Kubernetes => kubernetes(choice, known),
        Form::Slurm => slurm(choice, known),
        Form::Systemd => systemd(choice, known),
    }
}

/// What each form says of itself, a line each.
fn about(name: &str, choice: &Choice, known: &Known) -> Vec<String> {
    let mut lines = vec![
        format!("Written by nearfar fix --to {name}, for: {}", command(known).join(" ")),
        format!("Machine: {}", known.machine),
        format!("Policy: {}", choice.policy.words()),
        format!("Gain: {}; predicted from counts", choice.gain()),
        choice.kept(),
    ];
    if let Some((better, predicted)) = &choice.better {
        let gain = crate::whatif::gain(predicted);
        lines.push(format!("Better, but not to be had here: {}: {gain}", better.words()));
    }
    if matches!(choice.policy, Policy::WeightedInterleave(_)) {
        lines.push(
            "Needs Linux 6.9, and weights in /sys/kernel/mm/mempolicy/weighted_interleave that follow the bandwidths."
                .to_owned(),
        );
    }
    if let Policy::Weights(weights) = &choice.policy {
        lines.push("Needs Linux 6.9, and these weights, which are the whole machine's; as root:".to_owned());
        let file = "/sys/kernel/mm/mempolicy/weighted_interleave/node";
        lines.extend(weights.iter().map(|(node, weight)| format!("    echo {weight} > {file}{node}")));
    }
    lines
}

/// Lines as comments: no name ends its line or reaches a terminal as a command.
fn comments(lines: &[String]) -> String {
    lines.iter().map(|line| format!("# {}\n", plain(line))).collect()
}

fn plain(line: &str) -> String {
    line.chars().map(|c| if escape::is_command(c) { ' ' } else { c }).collect()
}

/// The command; what stands for it where none is known.
fn command(known: &Known) -> Vec<String> {
    if known.command.is_empty() { vec!["./app".to_owned()] } else { known.command.clone() }
}

/// The words of numactl before the command.
fn numactl_words(policy: &Policy) -> Vec<String> {
    match policy {
        Policy::Interleave(nodes) => vec![format!("--interleave={nodes}")],
        Policy::WeightedInterleave(nodes) => vec![format!("--weighted-interleave={nodes}")],
        Policy::Weights(weights) => vec![format!("--weighted-interleave={}", nodes_of(weights))],
        Policy::OneNode(node) => vec![format!("--cpunodebind={node}"), format!("--membind={node}")],
    }
}

/// numactl and the command that it starts.
fn numactl_line(policy: &Policy, known: &Known) -> Vec<String> {
    let mut words = vec!["numactl".to_owned()];
    words.extend(numactl_words(policy));
    words.push("--".to_owned());
    words.extend(command(known));
    words
}

fn numactl(choice: &Choice, known: &Known) -> String {
    let mut lines = about("numactl", choice, known);
    if matches!(choice.policy, Policy::WeightedInterleave(_) | Policy::Weights(_)) {
        lines.push("Needs a numactl that has --weighted-interleave.".to_owned());
    }
    comments(&lines) + &shell::command(&numactl_line(&choice.policy, known)) + "\n"
}

/// Field names and values of the runtime specification's config-linux.md. JSON has no comments: `annotations` is the
/// specification's own place for what a runtime does not read.
fn oci(choice: &Choice, known: &Known) -> String {
    let mut notes = about("oci", choice, known);
    // Physical numbers: a manager that changes the container's cpuset does not renumber them.
    let policy =
        |mode: &str, nodes: String| json!({"mode": mode, "nodes": nodes, "flags": ["MPOL_F_STATIC_NODES"]});
    let mut linux = match &choice.policy {
        Policy::Interleave(nodes) => json!({"memoryPolicy": policy("MPOL_INTERLEAVE", nodes.to_string())}),
        Policy::WeightedInterleave(nodes) => {
            json!({"memoryPolicy": policy("MPOL_WEIGHTED_INTERLEAVE", nodes.to_string())})
        }
        Policy::Weights(weights) => {
            json!({"memoryPolicy": policy("MPOL_WEIGHTED_INTERLEAVE", nodes_of(weights).to_string())})
        }
        Policy::OneNode(node) => json!({
            "memoryPolicy": policy("MPOL_BIND", node.to_string()),
            "resources": {"cpu": {"mems": node.to_string()}},
        }),
    };
    if let Policy::OneNode(node) = choice.policy {
        match &known.cpus {
            Some(cpus) => linux["resources"]["cpu"]["cpus"] = Value::from(cpus.to_string()),
            None => notes.push(unknown_cpus(node, "linux.resources.cpu.cpus")),
        }
    }
    notes.push("memoryPolicy is of runtime-spec 1.3: an older runtime leaves it out silently".to_owned());
    let notes: Vec<String> = notes.iter().map(|line| plain(line)).collect();
    let part = json!({"annotations": {"nearfar.fix": notes.join("\n")}, "linux": linux});
    nearfar_figures::json::pretty(&part)
}

fn unknown_cpus(node: u32, field: &str) -> String {
    format!(
        "MISSING: {field} must be the cpus of node {node}, which are not known here; `lscpu` prints them. Without it \
         threads run on other nodes, far from their memory"
    )
}

/// What a service's drop-in says, all of it in systemd.exec(5) and systemd.resource-control(5).
fn systemd(choice: &Choice, known: &Known) -> String {
    let mut lines = about("systemd", choice, known);
    lines.push(
        "A drop-in: /etc/systemd/system/NAME.service.d/numa.conf, then systemctl daemon-reload".to_owned(),
    );
    let settings = match &choice.policy {
        Policy::Interleave(nodes) | Policy::WeightedInterleave(nodes) => {
            format!("NUMAPolicy=interleave\nNUMAMask={nodes}\n")
        }
        // As Form::has says, it is not asked for.
        Policy::Weights(weights) => format!("NUMAPolicy=interleave\nNUMAMask={}\n", nodes_of(weights)),
        Policy::OneNode(node) => {
            let allowed = known.cpus.as_ref().map_or(String::new(), |cpus| format!("AllowedCPUs={cpus}\n"));
            // `numa`: the cpus of the nodes in NUMAMask=, wherever the unit is started.
            format!(
                "NUMAPolicy=bind\nNUMAMask={node}\nCPUAffinity=numa\n{allowed}AllowedMemoryNodes={node}\n"
            )
        }
    };
    format!("{}[Service]\n{settings}", comments(&lines))
}

/// A batch script. One task gets all cpus: a step without `--cpus-per-task` would have one.
fn slurm(choice: &Choice, known: &Known) -> String {
    let mut lines = about("slurm", choice, known);
    let mut options = vec!["--nodes=1", "--ntasks=1", "--exclusive"];
    let step = match &choice.policy {
        Policy::OneNode(node) => {
            // srun takes --hint and --cpu-bind not together.
            let command = shell::command(&command(known));
            format!("--cpu-bind=map_ldom:{node} --mem-bind=map_mem:{node} {command}")
        }
        policy => {
            lines.push(
                "--mem-bind has no type that interleaves (local, map_mem, mask_mem, prefer, rank): numactl does it."
                    .to_owned(),
            );
            if known.single_threaded_cores {
                options.push("--hint=nomultithread");
            }
            format!("--mem-bind=none {}", shell::command(&numactl_line(policy, known)))
        }
    };
    let options: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    format!(
        "#!/bin/bash\n{options}{}srun --ntasks=1 --cpus-per-task=\"$SLURM_CPUS_ON_NODE\" {step}\n",
        comments(&lines)
    )
}

/// Two documents: the kubelet's configuration of the node, and the pod.
fn kubernetes(choice: &Choice, known: &Known) -> String {
    let lines = about("k8s", choice, known);
    let words = match &choice.policy {
        Policy::OneNode(_) => command(known),
        policy => numactl_line(policy, known),
    };
    // JSON is YAML, whatever is in the words.
    let words = escape::json(Value::from(words).to_string());
    let (kubelet, security) = match &choice.policy {
        Policy::OneNode(node) => (one_node(*node), String::new()),
        _ => (
            "# A container that is confined to one node has nothing to interleave over.\n\
             topologyManagerPolicy: none\nmemoryManagerPolicy: None\n"
                .to_owned(),
            "    # No field of a pod is a memory policy, and none can say that memory is interleaved: numactl, which must be\n    \
             # in the image, sets it. The runtimes' default seccomp profile refuses that without this capability.\n    \
             securityContext:\n      capabilities:\n        add: [\"SYS_NICE\"]\n"
                .to_owned(),
        ),
    };
    let resources = match choice.policy {
        Policy::OneNode(_) => resources(known),
        _ => String::new(),
    };
    format!(
        "{}---\n\
         # Of the node's kubelet, in its configuration file.\n\
         apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{kubelet}---\n\
         apiVersion: v1\nkind: Pod\nmetadata:\n  name: app\nspec:\n  containers:\n  - name: app\n    \
         image: your-image # unknown to nearfar\n    command: {words}\n{security}{resources}",
        comments(&lines)
    )
}

/// The kubelet's part of one node. It refuses to start where the sums of the reserved memory differ.
fn one_node(node: u32) -> String {
    format!(
        "# No field of a pod names a node of memory: the kubelet chooses one that has room, not always node {node}.\n\
         cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node\ntopologyManagerScope: container\n\
         memoryManagerPolicy: Static\n\
         # Yours: reservedMemory must be what systemReserved, kubeReserved and evictionHard (100Mi unless set) hold of memory.\n\
         systemReserved:\n  cpu: \"1\"\n  memory: 924Mi\nreservedMemory:\n- numaNode: 0\n  limits:\n    memory: 1Gi\n"
    )
}

/// Requests that are limits and whole cpus: only such a pod gets cpus and memory of one node.
fn resources(known: &Known) -> String {
    const MIB: u64 = 1 << 20;
    let cpus = known.threads.max(1);
    let (memory, from) = match known.process_bytes {
        Some(bytes) => (format!("{}Mi", bytes.div_ceil(MIB)), "the most that the recorded process had"),
        None => ("MISSING".to_owned(), "unknown of the recorded process: put in what it needs"),
    };
    let both = |name: &str| format!("      {name}:\n        cpu: \"{cpus}\"\n        memory: {memory}\n");
    format!(
        "    # Limits that are the requests, and whole cpus: only then one node is chosen. Memory is {from}.\n    \
         resources:\n{}{}",
        both("requests"),
        both("limits")
    )
}
