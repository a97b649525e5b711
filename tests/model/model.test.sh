#!/usr/bin/env bash
# ctest: Model.LosesNoWakeUpAndItsMutantsDo labels=model timeout=60 -- doorbell doorbell_membarrier
# ctest: Model.TakesWholeRecordsOfAClientThatDies labels=model timeout=240 -- ring
# ctest: Model.ReadsNoTornRowWhateverDies labels=model timeout=240 -- direct_read
# ctest: Model.DeliversWhatWasNotAcknowledgedAndNothingElse labels=model timeout=240 -- lease
# ctest: Model.AppliesEachRecordOnceHoweverOftenTheConductorDies labels=model timeout=240 -- restart
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" "$@"
