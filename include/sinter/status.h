/* status.h: result of every call that can fail. Included by sinter.h. */
#ifndef SINTER_STATUS_H
#define SINTER_STATUS_H

/* SN_OK is 0; everything else is a failure whose one-line text sn_error() returns. */
typedef enum sn_status {
    SN_OK = 0,
    SN_ERROR_SYNTAX,        /* malformed text: the message gives line and column */
    SN_ERROR_TYPE,          /* wrong dtype or shapes that do not fit */
    SN_ERROR_ARGUMENT,      /* a call was made with arguments that make no sense */
    SN_ERROR_UNSUPPORTED,   /* valid, but this version cannot do it */
    SN_ERROR_VERIFY,        /* a module breaks a numbered invariant of docs/IR.md */
    SN_ERROR_FILE,          /* reading or writing a file failed */
    SN_ERROR_TARGET,        /* unknown target, or code generation for it failed */
    SN_ERROR_DEVICE,        /* no driver, no device, or the driver reported an error */
    SN_ERROR_MEMORY,        /* out of memory on the host */
    SN_ERROR_DEVICE_MEMORY, /* out of memory on the device */
    SN_ERROR_MISMATCH,      /* results differ from the reference by more than the bound */
    SN_ERROR_INTERNAL       /* a bug in Sinter */
} sn_status;

#endif
