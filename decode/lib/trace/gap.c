/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gap: the name and the meaning of each cause of a GAP.
 *
 * Names are what scripts look for, in JSON and in the API's aux_gap_name():
 * they never change. Texts are for people, and say what to do where there is
 * something to do.
 */
#include "decode/lib/trace/gap.h"

/* By enum aux_gap_cause. table */
static const struct {
	const char *name, *text;
} causes[GAP_N_CAUSES] = {
	[AUX_GAP_OVERFLOW] = { "overflow", "the CPU produced trace faster than "
					   "it could store and dropped some" },
	[AUX_GAP_NO_CODE] = { "no-code",
			      "the code that ran is in no file given" },
	[AUX_GAP_BAD_PACKET] = { "bad-packet", "these bytes are no packet: the "
					       "trace is damaged" },
	[AUX_GAP_DESYNC] = { "desync", "trace and code contradict each other: "
				       "the file is not the one that ran, or "
				       "code changed unseen" },
	[AUX_GAP_NO_SYNC] = { "no-sync", "no sync point: these bytes cannot be "
					 "decoded" },
	[AUX_GAP_AUX_TRUNCATED] = { "aux-truncated", "the AUX buffer was full; "
						     "record with a larger "
						     "one" },
	[AUX_GAP_AUX_PARTIAL] = { "aux-partial", "the kernel says that this "
						 "piece of trace is not "
						 "complete" },
	[AUX_GAP_AUX_COLLISION] = { "aux-collision", "another user had the "
						     "trace unit" },
	[AUX_GAP_AUX_LOST] = { "aux-lost", "bytes of the AUX stream are not in "
					   "the file" },
	[AUX_GAP_AUX_ZEROS] = { "aux-zeros", "zeros where trace should be: it "
					     "was lost or never written" },
	[AUX_GAP_UNKNOWN_INSN] = { "unknown-insn",
				   "a branch that the decoder does not know: "
				   "newer than it, or these bytes are not "
				   "the code that ran" },
	[AUX_GAP_UNCOMMITTED] = { "uncommitted",
				  "uncommitted at the end: the trace does not "
				  "say whether the last instructions ran" },
	[AUX_GAP_CUT] = { "cut", "the trace ends in the middle of a packet: the "
				 "rest of it was not recorded, or was cut off" },
	[AUX_GAP_LOST_CALL] = { "lost-call", "a return or branch whose way is told "
					     "by what an earlier gap hides" },
	[AUX_GAP_UNTRACED] = { "untraced", "the trace says that instructions ran, "
					   "and not which (Q element)" },
	[GAP_SNAPSHOT] = { "snapshot", "not recorded between snapshots" },
	[GAP_STALLED] = { "stalled", "the trace unit had stopped" },
	[GAP_UNSAVED] = { "unsaved", "the recorder could not save what was "
				     "here" },
	[GAP_OFFLINE] = { "offline", "the CPU was offline" },
	[GAP_UNKNOWN_ID] = { "unknown-id", "the file does not say whose trace "
					   "this is" },
	[GAP_UNPLACED] = { "unplaced", "something is missing, and the trace does "
				       "not show where: records were lost or "
				       "contradict each other, or the recorder "
				       "could not save all" },
	[AUX_GAP_FILE] = { "file", "the recording is cut or damaged here" },
	[AUX_GAP_DECODER] = { "decoder", "the decoder met a limit of its own" },
};

const char *gap_name(unsigned cause)
{
	if (cause >= GAP_N_CAUSES || !causes[cause].name)
		return "unknown";
	return causes[cause].name;
}

const char *gap_text(unsigned cause)
{
	if (cause >= GAP_N_CAUSES || !causes[cause].text)
		return "a cause that this build does not know";
	return causes[cause].text;
}
