/* What the program says of itself, through nearfar.h's weak symbols. */
#include "agent.h"

static void send(uint16_t kind, const struct nf_range *range, const char *name) {
    int saved = errno;
    if (nf_enter()) {
        struct nf_range body = range ? *range : (struct nf_range){0};
        body.to = 0;
        while (name && name[body.to] && body.to < NF_MAX_NAME) body.to++;
        nf_emit(kind, 0, &body, sizeof body, name, body.to, true);
        nf_leave();
    }
    errno = saved;
}

EXPORT void nearfar_agent_begin(void) { send(NF_ROI_BEGIN, NULL, NULL); }
EXPORT void nearfar_agent_end(void) { send(NF_ROI_END, NULL, NULL); }
EXPORT void nearfar_agent_phase_begin(const char *name) { send(NF_PHASE_BEGIN, NULL, name); }
EXPORT void nearfar_agent_phase_end(const char *name) { send(NF_PHASE_END, NULL, name); }
EXPORT void nearfar_agent_name(const void *address, size_t bytes, const char *name) {
    struct nf_range range = {.address = (uintptr_t)address, .bytes = bytes};
    send(NF_NAME, &range, name);
}
