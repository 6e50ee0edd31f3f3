# SPDX-License-Identifier: Apache-2.0
"""Checks a file of examples/deploy with the tool that knows its format; exits with 77 where that tool is missing.

usage: check.py systemd|manifest|prometheus|dashboard SLUICE_SERVE
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[3] / "examples" / "deploy"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def needs(tool, package):
    if shutil.which(tool) is None:
        skip(f"{tool} is missing (Debian: {package})")


def needs_yaml():
    try:
        import yaml
    except ImportError:
        skip("python3-yaml is missing")
    return yaml


def run(*command, cwd=None):
    ran = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {ran.returncode}\n{ran.stdout}")
    return ran.stdout


def systemd(server):
    needs("systemd-analyze", "systemd")
    text = (DEPLOY / "sluice.service").read_text()
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "sluice.service"
        installed = "/usr/local/bin/sluice-serve"
        assert installed in text
        unit.write_text(text.replace(installed, str(server)))
        said = run("systemd-analyze", "verify", "--man=no", unit)
        assert "sluice.service" not in said, said  # an unknown line is a warning only
    known = dict(re.findall(r"^([\w-]+) = (.*)$", (DEPLOY / "serve.conf").read_text(), re.M))
    stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.M)[1])
    assert stop > max(float(known["drain"]), float(known["drain-delay"])) + 2
    run(server, "--config", DEPLOY / "serve.conf", "--list")  # its flags are known


def manifest(server):
    yaml = needs_yaml()
    objects = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    assert set(objects) == {"ConfigMap", "Deployment", "Service"}
    for one in objects.values():
        assert one["apiVersion"] in ("v1", "apps/v1") and one["metadata"]["name"]
    flags = objects["ConfigMap"]["data"]["serve.conf"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "serve.conf"
        file.write_text(flags)
        run(server, "--config", file, "--list")
    known = dict(re.findall(r"^([\w-]+) = (.*)$", flags, re.M))
    deployment = objects["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels == objects["Service"]["spec"]["selector"]
    assert pod["terminationGracePeriodSeconds"] > max(float(known["drain"]), float(known["drain-delay"])) + 2
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["http"] == int(known["port"])
    probes = {"startupProbe": "/ready", "readinessProbe": "/ready", "livenessProbe": "/health"}
    for name, path in probes.items():
        assert container[name]["httpGet"] == {"path": path, "port": "http"}, name
    readiness = container["readinessProbe"]  # a router notices within the delay
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < float(known["drain-delay"])
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] in ports
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def prometheus(_):
    needs("promtool", "prometheus")
    run("promtool", "check", "config", "prometheus.yml", cwd=DEPLOY)  # and the rules that it names
    run("promtool", "test", "rules", "alerts_test.yml", cwd=DEPLOY)


def expressions():
    for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def names_in(expression):
    without = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", " ", expression)
    return set(re.findall(r"\b(?:vllm:|sluice:|process_)\w+", without))


def dashboard(server):
    """Every metric of the dashboard and the alerts is in /metrics; and promtool reads the expressions, if it is there."""
    yaml = needs_yaml()
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    wanted = {}
    for title, expression in [*expressions(), *((rule["alert"], rule["expr"]) for rule in rules)]:
        for name in names_in(expression):
            wanted.setdefault(name, title)
    assert len(wanted) > 30
    process = subprocess.Popen(
        [server, "--model", "llama3-8b", "--simulate", "h100", "--port", "0", "--quiet", "--drain-delay", "0"],
        stdout=subprocess.PIPE, text=True)
    try:
        url = next(line for line in process.stdout if line.startswith("http://")).split("/v1")[0]
        while True:
            try:
                urllib.request.urlopen(url + "/ready").read()
                break
            except urllib.error.HTTPError:
                time.sleep(0.05)
        body = json.dumps({"prompt": "a", "max_tokens": 3}).encode()
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, headers)).read()
        text = urllib.request.urlopen(url + "/metrics").read().decode()
    finally:
        process.kill()
        process.wait()
    there = set(re.findall(r"^([\w:]+)(?:\{.*\})? \S+$", text, re.M))
    missing = {name: where for name, where in wanted.items() if name not in there}
    assert not missing, missing
    # What vLLM's own dashboard reads, and a gateway's endpoint picker.
    for name in ("e2e_request_latency_seconds_bucket prompt_tokens_total generation_tokens_total "
                 "inter_token_latency_seconds_bucket request_time_per_output_token_seconds_bucket "
                 "time_to_first_token_seconds_bucket num_requests_running num_requests_waiting kv_cache_usage_perc "
                 "request_prompt_tokens_bucket request_generation_tokens_bucket request_success_total "
                 "request_queue_time_seconds_sum request_prefill_time_seconds_sum request_decode_time_seconds_sum "
                 "request_inference_time_seconds_sum request_max_num_generation_tokens_sum request_params_n_sum "
                 "request_params_max_tokens_sum cache_config_info").split():
        assert "vllm:" + name in there, name
    if shutil.which("promtool") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dashboard.yml"
        lines = [{"record": "one", "expr": re.sub(r"\$__rate_interval", "1m", each)} for _, each in expressions()]
        for number, line in enumerate(lines):
            line["record"] += str(number)
        file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": lines}]}))
        run("promtool", "check", "rules", file)


if __name__ == "__main__":
    {"systemd": systemd, "manifest": manifest, "prometheus": prometheus, "dashboard": dashboard}[sys.argv[1]](sys.argv[2])
