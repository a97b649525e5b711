#!/usr/bin/env bash
# ctest: Model.LosesNoWakeUpAndItsMutantsDo labels=model timeout=60
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh"
