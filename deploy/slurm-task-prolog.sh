#!/usr/bin/env bash
# Slurm's TaskProlog, where ranktrace-agent.service runs on each node (slurm.conf: TaskProlog=/etc/slurm/slurm-task-prolog.sh): what it prints is set in
# each task's environment, so that PyTorch ranks ask the agent whether to record. Nothing else of a job changes.
echo "export KINETO_USE_DAEMON=1"
